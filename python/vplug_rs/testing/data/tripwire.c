/* A library that notes that it was loaded, and which of its first functions were called.
 *
 * Built as libcuda, libamdhip64, libze_loader and libtpu, with -DNAME="libcuda" and -DLOG="FILE". Where it stands in for
 * a driver, FAKE_CUDA_RC is what cuInit returns, FAKE_CUDA_COUNT how many devices it has (none without it), and
 * FAKE_CUDA_HANG=1 makes cuInit hang. As the real one it sees what CUDA_VISIBLE_DEVICES leaves, and begins with none.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int note(const char *what) {
    char line[160];
    int file = open(LOG, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    int length = snprintf(line, sizeof line, "%ld %s %s\n", (long)getpid(), NAME, what);
    if (file >= 0) {
        if (write(file, line, length) < 0) _exit(99);
        close(file);
    }
    return 0;
}

__attribute__((constructor)) static void loaded(void) { note("loaded"); }

static int number(const char *variable) {
    const char *value = getenv(variable);
    return value ? atoi(value) : 0;
}

/* Of a mask that names devices by number, each once. */
static int visible(void) {
    const char *mask = getenv("CUDA_VISIBLE_DEVICES");
    int all = number("FAKE_CUDA_COUNT"), named = 1;
    if (!mask) return all;
    if (*mask < '0' || *mask > '9') return 0;
    for (; *mask; mask++) named += *mask == ',';
    return named < all ? named : all;
}

int cuInit(unsigned flags) {
    (void)flags;
    note("cuInit");
    while (number("FAKE_CUDA_HANG")) pause();
    if (number("FAKE_CUDA_RC")) return number("FAKE_CUDA_RC");
    return getenv("CUDA_VISIBLE_DEVICES") && !visible() ? 100 : 0;
}

int cuDeviceGetCount(int *count) {
    note("cuDeviceGetCount");
    *count = visible();
    return 0;
}

int hipInit(unsigned flags) { (void)flags; return note("hipInit"); }
int hipGetDeviceCount(int *count) { *count = 0; return note("hipGetDeviceCount"); }
int zeInit(unsigned flags) { (void)flags; return note("zeInit"); }
void *GetPjrtApi(void) { note("GetPjrtApi"); return 0; }
