// The floor: only the system calls that discovery cannot do without, in C.
//   cc -O2 -o floor floor.c;  floor MODE FOLDER PASSES
// MODE  list  open the folder, getdents64, close
//       open  list, then openat, read and close of every X.dist-info/entry_points.txt
//       stat  list, then fstatat of every X.dist-info/entry_points.txt
// Prints one JSON object; times are microseconds of one pass.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SUFFIX ".dist-info"
#define FILE_NAME "/entry_points.txt"
enum { MOST = 20000, LONGEST = 255 - sizeof FILE_NAME };

struct entry { uint64_t inode; int64_t offset; unsigned short length; unsigned char type; char name[]; };

static char listing[1 << 18], content[1 << 16], paths[MOST][256];
static int distributions, files;
static volatile uint64_t sink; // keeps what was read from being optimised away

static double microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static int list(const char *folder) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) { perror(folder); exit(1); }
    distributions = 0;
    for (long got; (got = syscall(SYS_getdents64, fd, listing, sizeof listing)) > 0;) {
        for (long at = 0; at < got;) {
            struct entry *e = (struct entry *)(listing + at);
            at += e->length;
            size_t length = strlen(e->name), suffix = sizeof SUFFIX - 1;
            if (length <= suffix || length > LONGEST || distributions == MOST || memcmp(e->name + length - suffix, SUFFIX, suffix)) continue;
            memcpy(paths[distributions], e->name, length);
            memcpy(paths[distributions++] + length, FILE_NAME, sizeof FILE_NAME);
        }
    }
    return fd;
}

static void pass(char mode, const char *folder) {
    int at = list(folder);
    files = 0;
    for (int i = 0; i < distributions && mode != 'l'; i++) {
        if (mode == 's') {
            struct stat found;
            files += fstatat(at, paths[i], &found, 0) == 0;
            continue;
        }
        int fd = openat(at, paths[i], O_RDONLY | O_CLOEXEC);
        if (fd < 0) continue;
        ssize_t got = read(fd, content, sizeof content);
        sink += got > 0 ? content[0] + got : 0;
        close(fd);
        files++;
    }
    close(at);
}

static int order(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int count, char **words) {
    int passes = count == 4 ? atoi(words[3]) : 0;
    if (passes < 1 || !strchr("los", words[1][0])) { fputs("usage: floor list|open|stat FOLDER PASSES\n", stderr); return 2; }
    double *times = calloc(passes, sizeof *times);
    if (!times) return 1;
    for (int i = 0; i < passes; i++) {
        double start = microseconds();
        pass(words[1][0], words[2]);
        times[i] = microseconds() - start;
    }
    double first = times[0];
    qsort(times, passes, sizeof *times, order);
    printf("{\"distributions\":%d,\"files\":%d,\"first_us\":%.1f,\"median_us\":%.1f,\"min_us\":%.1f}\n",
           distributions, files, first, times[passes / 2], times[0]);
    free(times);
    return 0;
}
