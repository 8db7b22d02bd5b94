/* An NVML that does what the environment says, read at each call.
 *
 *   FAKE_NVML_COUNT=N             how many devices; 1 without it
 *   FAKE_NVML_RC_<function>=CODE  what a function returns
 *   FAKE_NVML_HANG=F[,F...]       these never return; "dlopen" is the library's constructor
 *   FAKE_NVML_CRASH=F[,F...]      these end the process with SIGSEGV
 *   FAKE_NVML_EXIT=F[,F...]       these end the process with exit status 3
 *   FAKE_NVML_LOST=I[,I...]|all   these devices give 15, GPU is lost, for their handle
 *   FAKE_NVML_SLEEP_MS=MS|F:MS    how long each call takes, or one function's
 *   FAKE_NVML_NAME, _DRIVER, _CUDA, _MEMORY   what is told; CUDA as NVML has it, 12080
 *   FAKE_NVML_LOG=FILE            one line for each call: process and function
 *
 * It is a current driver's; built with -DINIT=2 an older one's, without nvmlInitWithFlags; with -DINIT=1 the oldest,
 * without nvmlInit_v2 too; with -DINIT=0 one that has no function to begin with.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef INIT
#define INIT 3
#endif

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char address[32]; } pci_info;
typedef struct { unsigned long long total, free, used; } memory_info;

static int begun;

static const char *said(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

/* Whether a list, "a,b,c", has a word, or is "all". */
static int lists(const char *variable, const char *word) {
    const char *at = said(variable, "");
    size_t length = strlen(word);
    if (strcmp(at, "all") == 0) return 1;
    for (; *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == 0)) return 1;
    return 0;
}

static void misbehave(const char *function) {
    const char *sleeps = said("FAKE_NVML_SLEEP_MS", "0"), *colon = strchr(sleeps, ':');
    if (!colon || (strncmp(sleeps, function, colon - sleeps) == 0 && !function[colon - sleeps])) {
        long ms = atol(colon ? colon + 1 : sleeps);
        struct timespec time = {ms / 1000, ms % 1000 * 1000000};
        if (ms) nanosleep(&time, 0);
    }
    if (lists("FAKE_NVML_CRASH", function)) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (lists("FAKE_NVML_EXIT", function)) _exit(3);
    if (lists("FAKE_NVML_HANG", function)) for (;;) pause();
}

__attribute__((constructor)) static void loaded(void) { misbehave("dlopen"); }

/* What happens at each call: noted, then what is scripted. */
static int called(const char *function) {
    char name[128];
    const char *log = getenv("FAKE_NVML_LOG");
    if (log) {
        char line[160];
        int file = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
        int length = snprintf(line, sizeof line, "%ld %s\n", (long)getpid(), function);
        if (file >= 0) {
            if (write(file, line, length) < 0) _exit(99);
            close(file);
        }
    }
    misbehave(function);
    snprintf(name, sizeof name, "FAKE_NVML_RC_%s", function);
    return atoi(said(name, "0"));
}

static int begin(const char *function) {
    int code = called(function);
    if (!code) begun++;
    return code;
}

/* What must have been begun gives 1, uninitialized, before that. */
static int asked(const char *function) {
    int code = called(function);
    return code ? code : begun ? 0 : 1;
}

static int text(char *out, unsigned size, const char *value) {
    if (strlen(value) >= size) return 7;
    strcpy(out, value);
    return 0;
}

#if INIT > 2
int nvmlInitWithFlags(unsigned flags) { (void)flags; return begin("nvmlInitWithFlags"); }
#endif
#if INIT > 1
int nvmlInit_v2(void) { return begin("nvmlInit_v2"); }
#endif
#if INIT > 0
int nvmlInit(void) { return begin("nvmlInit"); }
#endif

int nvmlShutdown(void) {
    int code = asked("nvmlShutdown");
    if (!code) begun--;
    return code;
}

const char *nvmlErrorString(int code) { (void)code; called("nvmlErrorString"); return "an error of the fake"; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    int code = asked("nvmlDeviceGetCount_v2");
    if (!code) *count = (unsigned)strtoul(said("FAKE_NVML_COUNT", "1"), 0, 10);
    return code;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    char number[16];
    int code = asked("nvmlDeviceGetHandleByIndex_v2");
    if (code) return code;
    snprintf(number, sizeof number, "%u", index);
    if (lists("FAKE_NVML_LOST", number)) return 15;
    *handle = (void *)(size_t)(index + 1);
    return 0;
}

int nvmlDeviceGetName(void *handle, char *out, unsigned size) {
    int code = asked("nvmlDeviceGetName");
    (void)handle;
    return code ? code : text(out, size, said("FAKE_NVML_NAME", "NVIDIA Fake 100"));
}

int nvmlDeviceGetUUID(void *handle, char *out, unsigned size) {
    char uuid[64];
    int code = asked("nvmlDeviceGetUUID");
    snprintf(uuid, sizeof uuid, "GPU-00000000-0000-0000-0000-%012zx", (size_t)handle);
    return code ? code : text(out, size, uuid);
}

int nvmlDeviceGetPciInfo_v3(void *handle, pci_info *out) {
    int code = asked("nvmlDeviceGetPciInfo_v3");
    if (code) return code;
    memset(out, 0, sizeof *out);
    out->bus = 0x17 + (unsigned)(size_t)handle;
    out->id = 0x233010de;
    snprintf(out->legacy, sizeof out->legacy, "0000:%02X:00.0", out->bus & 0xff);
    snprintf(out->address, sizeof out->address, "00000000:%02X:00.0", out->bus & 0xff);
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *handle, memory_info *out) {
    int code = asked("nvmlDeviceGetMemoryInfo");
    (void)handle;
    if (code) return code;
    out->total = strtoull(said("FAKE_NVML_MEMORY", "85899345920"), 0, 10);
    out->used = 1 << 20;
    out->free = out->total - out->used;
    return 0;
}

int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
    int code = asked("nvmlDeviceGetCudaComputeCapability");
    (void)handle;
    if (code) return code;
    *major = 9;
    *minor = 0;
    return 0;
}

int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    int code = asked("nvmlSystemGetDriverVersion");
    return code ? code : text(out, size, said("FAKE_NVML_DRIVER", "570.124.06"));
}

int nvmlSystemGetCudaDriverVersion(int *version) {
    int code = asked("nvmlSystemGetCudaDriverVersion");
    if (!code) *version = atoi(said("FAKE_NVML_CUDA", "12080"));
    return code;
}
