/* Hands over before an orderly end of the process: other voters coordinate from then on. See
 * driver.h. */
#include "driver/private.h"

void driver_resign(struct driver *driver)
{
    if (!driver_has_failed(driver) && driver->started) {
        struct quorum_event event = {.kind = QUORUM_RESIGN};
        driver_step_quorum(driver, &event);
        driver_drain(driver);
    }
}

bool driver_resigned(const struct driver *driver)
{
    return driver_has_failed(driver) || driver->config.quorum == NULL ||
           quorum_resigned(driver->config.quorum);
}

bool driver_handed_over(const struct driver *driver)
{
    return !driver_has_failed(driver) && driver->config.quorum != NULL &&
           quorum_handed_over(driver->config.quorum);
}
