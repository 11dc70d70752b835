/* A stand-in for libnvidia-ml.so.1 that costs next to nothing, so that what is measured is its caller; with -DSMI, a
 * stand-in for nvidia-smi over the same cards. Structs and codes as NVIDIA documents them for NVML (API 13).
 *
 * FAKE_GPUS: number of H100s (8). FAKE_PIDS: pids that are on the cards in turn, comma-separated. FAKE_MIG: 1 for seven
 * instances a card. Power swings with time; the counter is its integral, from one origin in all processes.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7 };
enum { ENERGY = 83, AVERAGE = 185, INSTANT = 186, U32_TYPE = 1, U64_TYPE = 3 };
#define MOST_CARDS 16
#define MOST_PIDS 256
#define INSTANCES 7
#define NONE 0xffffffffu
#define MIB (1ull << 20)

typedef struct { int card, instance; } place_t;
typedef struct { char legacy[16]; unsigned domain, bus, device, device_id, subsystem_id; char bus_id[32]; } pci_t;
typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_t;
typedef struct { unsigned version, sensor; int temperature; } temperature_t;
typedef struct { unsigned pid; unsigned long long used; unsigned instance, compute; } process_t;
typedef struct { unsigned pid; unsigned long long at_us; unsigned sm, memory, encoder, decoder; } sample_t;
typedef union { unsigned u32; unsigned long long u64; } value_t;
typedef struct { unsigned field, scope; long long at_us, latency_us; unsigned type, code; value_t value; } field_t;
typedef struct { unsigned processors, copy, decoder, encoder, jpeg, ofa, slices, compute; unsigned long long mb; } attributes_t;
typedef struct { unsigned version, count; void *first, *second; struct { unsigned id, code; double value; } metric; } gpm_t;

static int cards = 8, is_mig, pid_count;
static unsigned pids[MOST_PIDS];
static place_t places[MOST_CARDS][INSTANCES + 1];

static uint64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* 400 W, and 200 W more or less over a minute; the counter is the integral of exactly that. */
static unsigned power_mw(int card) {
    double at_s = (double)(now_us() % 3600000000u) / 1e6;
    return (unsigned)(400000 + 200000 * sin(at_s * 2 * M_PI / 60 + card));
}

static uint64_t energy_mj(int card) {
    double at_s = (double)(now_us() % 1000000000000u) / 1e6;
    return (uint64_t)(400000 * at_s + 200000 * 60 / (2 * M_PI) * (1 - cos(at_s * 2 * M_PI / 60 + card)));
}

__attribute__((constructor)) static void begin(void) {
    const char *count = getenv("FAKE_GPUS"), *mig = getenv("FAKE_MIG"), *listed = getenv("FAKE_PIDS");
    if (count && atoi(count) > 0 && atoi(count) <= MOST_CARDS) cards = atoi(count);
    is_mig = mig && atoi(mig);
    while (listed && *listed && pid_count < MOST_PIDS) {
        pids[pid_count++] = (unsigned)strtoul(listed, (char **)&listed, 10);
        if (*listed == ',') listed++;
    }
    for (int card = 0; card < MOST_CARDS; card++)
        for (int instance = 0; instance <= INSTANCES; instance++) places[card][instance] = (place_t){card, instance};
}

static void uuid_of(const place_t *at, char *out, size_t size) {
    if (at->instance) snprintf(out, size, "MIG-00000000-0000-4000-8%03x-%012x", at->instance, at->card);
    else snprintf(out, size, "GPU-00000000-0000-4000-8000-%012x", at->card);
}

#ifdef SMI
int main(void) {
    for (int card = 0; card < cards; card++) {
        char uuid[64];
        uuid_of(&places[card][0], uuid, sizeof uuid);
        printf("%d, %s, NVIDIA H100 80GB HBM3, %.2f, %.2f, 97, %llu, 81559, 45, 0x%016x\n", card, uuid,
               power_mw(card) / 1000.0, power_mw(card) / 1000.0, 4096ull, 0);
    }
    return 0;
}
#else
int nvmlInitWithFlags(unsigned flags) { return OK; }
int nvmlInit_v2(void) { return OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return "fake"; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) { snprintf(out, size, "590.48.01"); return OK; }
int nvmlSystemGetNVMLVersion(char *out, unsigned size) { snprintf(out, size, "13.590.48.01"); return OK; }
int nvmlDeviceGetCount_v2(unsigned *out) { *out = (unsigned)cards; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, place_t **out) {
    if (index >= (unsigned)cards) return INVALID;
    *out = &places[index][0];
    return OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, place_t **out) {
    for (int card = 0; card < cards; card++) {
        char known[64];
        uuid_of(&places[card][0], known, sizeof known);
        if (!strcmp(known, uuid)) { *out = &places[card][0]; return OK; }
    }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(place_t *at, char *out, unsigned size) { uuid_of(at, out, size); return OK; }

int nvmlDeviceGetName(place_t *at, char *out, unsigned size) {
    snprintf(out, size, "NVIDIA H100 80GB HBM3%s", at->instance ? " MIG 1g.10gb" : "");
    return OK;
}

int nvmlDeviceGetMinorNumber(place_t *at, unsigned *out) { *out = (unsigned)at->card; return OK; }

int nvmlDeviceGetPciInfo_v3(place_t *at, pci_t *out) {
    memset(out, 0, sizeof *out);
    out->bus = 0x1au + (unsigned)at->card;
    out->device_id = 0x233010deu;
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", out->bus);
    return OK;
}

int nvmlDeviceGetArchitecture(place_t *at, unsigned *out) { *out = 9; return OK; }
int nvmlDeviceGetC2cModeInfoV(place_t *at, unsigned *out) { *out = 0; return OK; }
int nvmlDeviceGetEnforcedPowerLimit(place_t *at, unsigned *out) { *out = 700000; return OK; }

int nvmlDeviceGetPowerManagementLimitConstraints(place_t *at, unsigned *low, unsigned *high) {
    *low = 200000;
    *high = 700000;
    return OK;
}

int nvmlDeviceGetFieldValues(place_t *at, int count, field_t *out) {
    for (field_t *each = out; each < out + count; each++) {
        each->code = OK;
        each->at_us = (long long)now_us();
        each->value.u64 = 0;
        if (each->field == AVERAGE || each->field == INSTANT) {
            each->type = U32_TYPE;
            each->value.u32 = power_mw(at->card);
        } else if (each->field == ENERGY) {
            each->type = U64_TYPE;
            each->value.u64 = energy_mj(at->card);
        } else {
            each->code = NOT_SUPPORTED;
        }
    }
    return OK;
}

int nvmlDeviceGetPowerUsage(place_t *at, unsigned *out) { *out = power_mw(at->card); return OK; }
int nvmlDeviceGetTotalEnergyConsumption(place_t *at, unsigned long long *out) { *out = energy_mj(at->card); return OK; }

int nvmlDeviceGetUtilizationRates(place_t *at, utilization_t *out) {
    if (is_mig) return NOT_SUPPORTED;
    *out = (utilization_t){97, 40};
    return OK;
}

int nvmlDeviceGetMemoryInfo_v2(place_t *at, memory_t *out) {
    out->total = 81559 * MIB;
    out->reserved = 640 * MIB;
    out->used = 4096 * MIB;
    out->free = out->total - out->reserved - out->used;
    return OK;
}

int nvmlDeviceGetTemperatureV(place_t *at, temperature_t *out) { out->temperature = 45; return OK; }
int nvmlDeviceGetTemperature(place_t *at, unsigned sensor, unsigned *out) { *out = 45; return OK; }
int nvmlDeviceGetCurrentClocksEventReasons(place_t *at, unsigned long long *out) { *out = 0; return OK; }

/* Two processes a card: pid number 2*card and 2*card+1 of the list. */
static unsigned pid_on(int card, int which) { return pids[(2 * card + which) % pid_count]; }

int nvmlDeviceGetComputeRunningProcesses_v3(place_t *at, unsigned *count, process_t *out) {
    unsigned room = *count;
    *count = pid_count ? 2 : 0;
    if (!*count) return OK;
    if (!out || room < *count) return TOO_SMALL;
    for (int which = 0; which < 2; which++)
        out[which] = (process_t){pid_on(at->card, which), 2048 * MIB, is_mig ? (unsigned)which + 1 : NONE, is_mig ? 0 : NONE};
    return OK;
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(place_t *at, unsigned *count, process_t *out) { *count = 0; return OK; }

int nvmlDeviceGetProcessUtilization(place_t *at, sample_t *out, unsigned *count, unsigned long long since_us) {
    if (is_mig) return NOT_SUPPORTED;
    *count = pid_count ? 2 : 0;
    if (!*count) return NOT_FOUND;
    if (!out) return TOO_SMALL;
    for (int which = 0; which < 2; which++) out[which] = (sample_t){pid_on(at->card, which), now_us() - 50000, 45, 10, 0, 0};
    return OK;
}

int nvmlDeviceGetMigMode(place_t *at, unsigned *current, unsigned *pending) {
    *current = *pending = (unsigned)is_mig;
    return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(place_t *at, unsigned *out) { *out = is_mig ? INSTANCES : 0; return OK; }

int nvmlDeviceGetMigDeviceHandleByIndex(place_t *at, unsigned index, place_t **out) {
    if (!is_mig || index >= INSTANCES) return NOT_FOUND;
    *out = &places[at->card][index + 1];
    return OK;
}

int nvmlDeviceGetGpuInstanceId(place_t *at, unsigned *out) {
    if (!at->instance) return NOT_SUPPORTED;
    *out = (unsigned)at->instance;
    return OK;
}

int nvmlDeviceGetAttributes_v2(place_t *at, attributes_t *out) {
    memset(out, 0, sizeof *out);
    out->slices = out->compute = 1;
    out->mb = 9728;
    return OK;
}

int nvmlGpmQueryDeviceSupport(place_t *at, unsigned *out) { out[1] = 1; return OK; }
int nvmlGpmSampleAlloc(void **out) { *out = calloc(1, 64); return OK; }
int nvmlGpmSampleFree(void *sample) { free(sample); return OK; }
int nvmlGpmMigSampleGet(place_t *at, unsigned instance, void *sample) { return OK; }
int nvmlGpmMetricsGet(gpm_t *out) { out->metric.code = OK; out->metric.value = 55.0; return OK; }
#endif
