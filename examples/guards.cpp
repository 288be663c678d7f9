// The guards of the standard library with Holdfast's locks. In each of the given number of rounds,
// std::scoped_lock takes two locks at once, and the program adds 1 to the number in a file.
// guards.sh runs several of these processes beside each other.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <holdfast/holdfast.hpp>
#include <mutex>

int main(int argc, char **argv)
{
    if (argc != 3) {
        std::fprintf(stderr, "usage: guards ROUNDS FILE\n");
        return 2;
    }
    try {
        holdfast::client client;
        holdfast::mutex stock(client, "stock");
        holdfast::mutex orders(client, "orders");
        for (int round = std::atoi(argv[1]); round > 0; round--) {
            std::scoped_lock guard(stock, orders);
            long number = 0;
            std::ifstream(argv[2]) >> number;
            std::ofstream(argv[2]) << number + 1;
        }
    } catch (const std::exception &failure) {
        std::fprintf(stderr, "guards: %s\n", failure.what());
        return 1;
    }
    return 0;
}
