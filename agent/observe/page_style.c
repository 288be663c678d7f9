/*
 * The style and the shapes of the status page: see page_parts.h.
 *
 * The colours are variables: one set for the light page, and one for the dark page.
 * tests/browser/page.py checks the contrast of each pair that is used: at least 4.5 for text and 3
 * for shapes (WCAG 2.1, AA).
 */
#include "observe/page_parts.h"

static const char style[] =
    ":root{color-scheme:light dark;--page:#f5f6f8;--card:#ffffff;--text:#1b2027;--soft:#566070;"
    "--line:#d5dae1;--link:#0b57b0;--bar:#35618f;--gap:#7d8896;"
    "--well:#0f6536;--well-card:#e6f4eb;--degraded:#7a4a00;--degraded-card:#fdf1d8;"
    "--failing:#a01a1a;--failing-card:#fdeaea}\n"
    "@media(prefers-color-scheme:dark){:root{--page:#101418;--card:#191f26;--text:#e7ebf0;"
    "--soft:#a4afbc;--line:#38424e;--link:#8ab8f5;--bar:#8fb3da;--gap:#76828f;"
    "--well:#7fdca6;--well-card:#132e20;--degraded:#f0c767;--degraded-card:#33280e;"
    "--failing:#ff9d97;--failing-card:#3b1718}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:62rem;padding:1rem;background:var(--page);color:var(--text);"
    "overflow-wrap:anywhere;"
    "font:1rem/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}\n"
    "header{margin:0 0 1rem}h1{margin:0;font-size:1.6rem;line-height:1.2;overflow-wrap:anywhere}\n"
    "h2{margin:0 0 .6rem;font-size:1.1rem}p{margin:.4rem 0}a{color:var(--link)}\n"
    "header p,.soft,caption,figcaption,footer{color:var(--soft)}.soft{font-size:.9rem}\n"
    "section{margin:0 0 1rem;padding:1rem;background:var(--card);border:1px solid var(--line);"
    "border-radius:.6rem}\n"
    ".shape{width:1em;height:1em;flex:none;fill:currentColor;vertical-align:-.12em}\n"
    ".well{color:var(--well)}.degraded{color:var(--degraded)}.failing{color:var(--failing)}\n"
    ".verdict{border-left:.4rem solid currentColor}\n"
    ".verdict.well{background:var(--well-card)}.verdict.degraded{background:var(--degraded-card)}"
    ".verdict.failing{background:var(--failing-card)}\n"
    ".verdict h2{display:flex;align-items:center;gap:.5rem;font-size:1.4rem;margin:0}\n"
    ".verdict p,.verdict li span{color:var(--text)}\n"
    ".verdict ul{list-style:none;margin:.6rem 0 0;padding:0}\n"
    ".verdict li{display:flex;gap:.5rem;margin:.4rem 0}.verdict li span{min-width:0}"
    ".verdict li .shape{margin-top:.25em}\n"
    "code{font:.9em ui-monospace,'DejaVu Sans Mono',monospace;overflow-wrap:anywhere}\n"
    "dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:.6rem 1rem;"
    "margin:0}dl div{min-width:0}dt{color:var(--soft);font-size:.9rem}\n"
    "dd{margin:0;font-size:1.15rem}"
    "dd small{font-size:.9rem;display:inline-block;line-height:1.3}\n"
    "table{width:100%;border-collapse:collapse;margin:1rem 0 0}section>table:first-of-type{"
    "margin-top:.8rem}\n"
    "caption{text-align:left;font-size:.9rem;padding:0 0 .4rem}\n"
    "th,td{text-align:left;vertical-align:top;padding:.45rem .8rem .45rem 0;"
    "border-top:1px solid var(--line);overflow-wrap:anywhere}thead th{border-top:0;"
    "color:var(--soft);font-weight:normal;font-size:.9rem}\n"
    "th{font-weight:600}th small,td small{color:var(--soft);font-size:.9rem;font-weight:normal}\n"
    ".number{text-align:right;font-variant-numeric:tabular-nums;padding-right:0}\n"
    "th.number,td.number{padding-left:.8rem}.locks th[scope=row]{width:32%}"
    ".locks td{width:34%}\n"
    ".two{display:grid;grid-template-columns:1fr 1fr;gap:1.5rem}figure{margin:0;min-width:0}\n"
    "figcaption{font-size:.9rem;min-height:3em}figcaption strong{color:var(--text)}\n"
    ".plot{display:block;width:100%;height:5rem;border-bottom:1px solid var(--soft)}\n"
    ".plot path{fill:var(--bar)}.plot .gap{fill:var(--gap)}\n"
    ".axis{display:flex;justify-content:space-between;font-size:.9rem;color:var(--soft)}\n"
    "footer{font-size:.9rem}footer a{display:inline-block;padding:.2rem 1rem .2rem 0}\n"
    "@media(max-width:40rem){body{padding:.6rem}section{padding:.8rem}"
    ".two{grid-template-columns:1fr;gap:1rem}figcaption{min-height:0}"
    "dl{grid-template-columns:1fr 1fr}.locks thead{position:absolute;width:1px;height:1px;"
    "overflow:hidden;clip-path:inset(50%)}.locks,.locks caption,.locks tbody,.locks tr,.locks td,"
    ".locks th[scope=row]{display:block;width:auto}.locks tr{border-top:1px solid var(--line);"
    "padding:.5rem 0}.locks th,.locks td{border:0;padding:.1rem 0}"
    ".locks td::before{content:attr(data-label) ' ';color:var(--soft);font-size:.9rem}"
    ".agents{table-layout:fixed}.agents th,.agents td{padding-right:.4rem}"
    ".agents .number{padding:.45rem 0 .45rem .3rem;width:20%}"
    ".agents thead .number{overflow-wrap:normal}.agents thead th:first-child{width:32%}}\n"
    "@media(forced-colors:active){.plot path{fill:CanvasText}}\n"
    "@media print{body{max-width:none}section{break-inside:avoid}}\n";

static const char shapes[] =
    "<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs>"
    /* a disc with a tick */
    "<symbol id=\"well\" viewBox=\"0 0 16 16\"><path fill-rule=\"evenodd\" d=\"M8 0a8 8 0 1 0 0 "
    "16A8 8 0 0 0 8 0ZM7 12 3.2 8.2l1.6-1.6L7 8.8l4.2-4.2 1.6 1.6Z\"/></symbol>"
    /* a triangle with an exclamation mark */
    "<symbol id=\"degraded\" viewBox=\"0 0 16 16\"><path fill-rule=\"evenodd\" d=\"M8 .5 16 15.2"
    "H0ZM7 5.5v5h2v-5ZM7 11.8v2h2v-2Z\"/></symbol>"
    /* an octagon with a cross */
    "<symbol id=\"failing\" viewBox=\"0 0 16 16\"><path fill-rule=\"evenodd\" d=\"M4.7 0h6.6L16 "
    "4.7v6.6L11.3 16H4.7L0 11.3V4.7ZM8 6.4 5.5 3.9 3.9 5.5 6.4 8l-2.5 2.5 1.6 1.6L8 9.6l2.5 2.5 "
    "1.6-1.6L9.6 8l2.5-2.5-1.6-1.6Z\"/></symbol>"
    "</defs></svg>\n";

const char *page_style(void)
{
    return style;
}

const char *page_shapes(void)
{
    return shapes;
}
