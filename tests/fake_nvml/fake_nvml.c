/* A stand-in for libnvidia-ml.so.1: as much of NVML as energyopt calls, on boards that live in a file.
 *
 * FAKE_NVML_STATE names the file that holds `State`; it is mapped by every process that calls in, so that a lock
 * outlives the process that set it. FAKE_NVML_LOG names a text file that gets a line for each call that sets or
 * resets something. fake_boards.py declares the same structs and writes the fields that are marked [test].
 *
 * A board draws idle_w + load * span_w * (clock / highest clock)^3. Time is CLOCK_MONOTONIC; energy is the exact
 * integral of power, shown as it stood at the last tick edge.
 *
 * NO_TOTAL_ENERGY, NO_EVENT_REASONS, NO_LOCKED_CLOCKS and NO_FIELD_VALUES leave functions out, as old drivers do.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BOARDS = 8, CLOCKS = 256, MEMORIES = 4, CHANGES = 64, MAGIC = 0x46414b45, VERSION = 1 };
enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
       INSUFFICIENT_SIZE = 7, UNKNOWN = 999 };
enum { CLOCK_MEMORY = 2, ID_CURRENT = 0, ID_APP = 1, ID_APP_DEFAULT = 2 };
enum { FIELD_POWER_AVERAGE = 185, FIELD_POWER_INSTANT = 186 };
enum { SCOPE_GPU = 0, SCOPE_MODULE = 1 };
enum { REASON_IDLE = 1, REASON_APPLICATIONS = 2 };

/* What a fault can be planted in; the order is that of fake_boards.py. */
enum { EVERYTHING, IDENTITY, ENERGY, POWER, POWER_FIELD, CLOCK, THROTTLE, TEMPERATURE, SUPPORTED, LIMIT, MIG,
       CAPABILITY, RESTRICTION, SET_LOCKED, RESET_LOCKED, GET_APPLICATION, SET_APPLICATION, PROCESSES, FAULTS };

/* [test] The next `calls` calls after the first `after` (calls < 0: all of them) answer so: with the error `code`,
 * or, where that is 0, with success and `value`. */
typedef struct { int32_t code, calls, after, unused; uint64_t value; } Fault;

typedef struct { double at_s, power_w; } Change;

typedef struct {
    char name[96], uuid[96], pci_bus_id[32];                     /* [test] */
    uint32_t capability, power_limit_mw, mig_mode, mig_slices;   /* [test] compute capability: 80 is 8.0 */
    uint32_t clock_count, memory_count;                          /* [test] */
    uint32_t clocks_mhz[CLOCKS], memory_mhz[MEMORIES];           /* [test] highest first */
    uint32_t lowest_lock_mhz, idle_mhz; /* [test] the lowest clock that a lock reaches; clock at load 0 without one */
    uint32_t held_mhz;                  /* [test] where not 0: the board runs so, whatever setters were told */
    uint32_t ceiling_mhz;               /* [test] where not 0: the clock is no higher */
    uint32_t throttle;                  /* [test] reason bits beside those that follow from the state */
    uint32_t usage_is_average;          /* [test] nvmlDeviceGetPowerUsage gives the last second's average */
    uint32_t usage_scope, energy_scope; /* [test] which scope nvmlDeviceGetPowerUsage and the counter cover */
    uint32_t application_restricted;    /* [test] setting application clocks needs root */
    uint32_t lock_low_mhz, lock_high_mhz;         /* 0: no lock */
    uint32_t application_mhz, application_memory_mhz, application_default_mhz; /* 0: no application clocks */
    uint32_t clock_before_mhz, counter_resets;    /* the clock until clock_change_s */
    int32_t temperature_c, others;                /* [test] others: processes that have work on the board */
    double load, idle_w, span_w, module_extra_w;  /* [test] module_extra_w: what CPU and memory draw */
    double tick_s, set_delay_s, clock_lag_s;      /* [test] a setter blocks for set_delay_s; then the clock lags */
    double counter_reset_s;                       /* [test] where not 0: the counter restarts then */
    double clock_change_s, settled_s, energy_j, shown_j;
    uint64_t change_count;
    Change changes[CHANGES];                      /* the ring of power changes, for averages */
    Fault faults[FAULTS];
} Board;

typedef struct { uint32_t magic, version, count, unused; Board boards[BOARDS]; } State;

typedef struct { uint32_t fieldId, scopeId; int64_t timestamp, latencyUsec; uint32_t valueType, nvmlReturn;
                 union { double d; uint32_t ui; uint64_t ull; } value; } FieldValue;
typedef struct { char busIdLegacy[16]; uint32_t domain, bus, device, pciDeviceId, pciSubSystemId; char busId[32]; } Pci;
typedef struct { uint32_t pid; uint64_t memory; uint32_t instance, compute_instance; } Process;
typedef struct { uint32_t version, sensor; int32_t temperature; } Temperature;
typedef void *Handle; /* board index + 1, plus 0x100 * (slice + 1) for a MIG slice */

static State *state;
static int state_fd = -1, inits;
static pid_t opened_by;
static char mapped_path[4096];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the state file ---- */

uint32_t fake_state_size(void) { return sizeof(State); }

/* Maps the file that the environment names now. */
static int map_state(void) {
    const char *path = getenv("FAKE_NVML_STATE");
    struct stat info;
    if (!path || strlen(path) >= sizeof mapped_path) return 0;
    if (state && !strcmp(path, mapped_path)) return 1;
    if (state) munmap(state, sizeof *state), close(state_fd);
    state = NULL;
    state_fd = open(path, O_RDWR | O_CLOEXEC);
    if (state_fd < 0) return 0;
    State *mapped = MAP_FAILED;
    if (!fstat(state_fd, &info) && info.st_size == (off_t)sizeof(State))
        mapped = mmap(NULL, sizeof *mapped, PROT_READ | PROT_WRITE, MAP_SHARED, state_fd, 0);
    if (mapped == MAP_FAILED) return close(state_fd), 0;
    state = mapped;
    if (state->magic != MAGIC || state->version != VERSION) abort(); /* fake_boards.py of another version */
    strcpy(mapped_path, path);
    return 1;
}

/* A forked child must not wait for a thread that was in here, nor keep a killed parent's file lock alive. */
static void start_afresh(void) {
    pthread_mutex_init(&mutex, NULL);
    if (state) munmap(state, sizeof *state), close(state_fd);
    state = NULL;
}
__attribute__((constructor)) static void at_load(void) { pthread_atfork(NULL, NULL, start_afresh); }

static int enter(void) {
    pthread_mutex_lock(&mutex);
    if (!map_state()) return pthread_mutex_unlock(&mutex), 0;
    flock(state_fd, LOCK_EX);
    return 1;
}

static int leave(int code) {
    flock(state_fd, LOCK_UN);
    pthread_mutex_unlock(&mutex);
    return code;
}

static void log_call(const Board *b, const char *call, uint32_t first, uint32_t second, int code) {
    const char *path = getenv("FAKE_NVML_LOG");
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : -1;
    if (fd < 0) return;
    char line[256];
    int size = snprintf(line, sizeof line, "%.6f %d %s %s %u %u %d\n", now_s(), (int)getpid(), b->uuid, call, first,
                        second, code);
    if (write(fd, line, (size_t)size) < 0) perror("fake_nvml log");
    close(fd);
}

/* ---- the board's physics ---- */

static uint32_t highest_at_most(const Board *b, uint32_t mhz) {
    for (uint32_t i = 0; i < b->clock_count; i++)
        if (b->clocks_mhz[i] <= mhz) return b->clocks_mhz[i];
    return b->clocks_mhz[b->clock_count - 1];
}

static uint32_t wanted_mhz(const Board *b) {
    uint32_t low = b->lock_low_mhz, high = b->lock_high_mhz;
    if (b->held_mhz) return b->held_mhz;
    if (high && high < b->lowest_lock_mhz) high = b->lowest_lock_mhz;
    if (high) return highest_at_most(b, b->load > 0 || low > high ? high : low);
    if (b->load <= 0 && b->idle_mhz) return b->idle_mhz;
    return b->application_mhz ? b->application_mhz : b->clocks_mhz[0];
}

static uint32_t clock_mhz(const Board *b, double at_s) {
    uint32_t mhz = at_s < b->clock_change_s ? b->clock_before_mhz : wanted_mhz(b);
    return b->ceiling_mhz && b->ceiling_mhz < mhz ? b->ceiling_mhz : mhz;
}

static double power_w(const Board *b, double at_s, uint32_t scope) {
    double share = (double)clock_mhz(b, at_s) / b->clocks_mhz[0];
    double gpu_w = b->idle_w + b->load * b->span_w * share * share * share;
    return scope == SCOPE_MODULE ? gpu_w + b->module_extra_w : gpu_w;
}

static void add_energy(Board *b, double until_s) {
    if (until_s <= b->settled_s) return;
    double w = power_w(b, b->settled_s, b->energy_scope);
    if (!b->change_count || b->changes[(b->change_count - 1) % CHANGES].power_w != w)
        b->changes[b->change_count++ % CHANGES] = (Change){b->settled_s, w};
    b->energy_j += w * (until_s - b->settled_s);
    b->settled_s = until_s;
}

/* Brings the energy up to now. Everything that changes power calls this first, so power is constant in between
 * but for the one moment at which a lagging clock changes. */
static double settle(Board *b) {
    double now = now_s(), edge = b->tick_s > 0 ? (double)(uint64_t)(now / b->tick_s) * b->tick_s : now;
    double stops[3] = {b->clock_change_s, edge, now};
    if (stops[0] > edge) stops[0] = edge, stops[1] = b->clock_change_s < now ? b->clock_change_s : now;
    for (int i = 0; i < 3; i++) {
        add_energy(b, stops[i]);
        if (stops[i] == edge && b->settled_s == edge) b->shown_j = b->energy_j;
    }
    if (b->counter_reset_s > 0 && now >= b->counter_reset_s) {
        b->counter_reset_s = b->energy_j = b->shown_j = 0;
        b->counter_resets++;
    }
    return now;
}

static double average_w(const Board *b, double now) {
    double joules = 0, end = now, start = now - 1;
    for (uint64_t i = b->change_count; i > 0 && i + CHANGES > b->change_count && end > start; i--) {
        const Change *c = &b->changes[(i - 1) % CHANGES];
        double from = c->at_s > start ? c->at_s : start;
        joules += c->power_w * (end - from);
        end = from;
    }
    return end < now ? joules / (now - end) : power_w(b, now, b->energy_scope);
}

/* For the test side: settle, so that a field can be changed from now on. */
int fake_settle(void) {
    if (!enter()) return UNKNOWN;
    for (uint32_t i = 0; i < state->count; i++) settle(&state->boards[i]);
    return leave(OK);
}

/* ---- calls ---- */

static int planted(Fault *f, uint64_t *value) {
    if (!f->calls || (f->after > 0 && f->after--)) return -1;
    if (f->calls > 0) f->calls--;
    if (!f->code && value) *value = f->value;
    return f->code || value ? f->code : -1;
}

/* Locks the state, finds the board and plays its faults. Returns -1 to go on, with the lock held and *board set; or
 * the call's answer, with the lock given back. A planted value is put into *value. */
static int begin(Handle handle, int kind, Board **board, uint64_t *value) {
    uintptr_t id = (uintptr_t)handle, index = (id & 0xff) - 1;
    if (!inits || opened_by != getpid()) return UNINITIALIZED;
    if (!enter()) return UNKNOWN;
    if (!id || index >= state->count) return leave(INVALID_ARGUMENT);
    if (id >> 8 && kind != IDENTITY && kind != MIG) return leave(NOT_SUPPORTED);
    *board = &state->boards[index];
    settle(*board);
    int code = planted(&(*board)->faults[EVERYTHING], NULL);
    if (code < 0) code = planted(&(*board)->faults[kind], value);
    return code < 0 ? -1 : leave(code);
}

static int give(uint32_t *out, int code, uint64_t value) {
    if (code == OK) *out = (uint32_t)value;
    return code;
}

static int give_text(char *out, uint32_t size, const char *text) {
    if (strlen(text) + 1 > size) return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return OK;
}

#define BEGIN(kind) Board *b; uint64_t value = 0; int code = begin(device, kind, &b, &value)
/* The shape of most getters: a planted answer, or `expression` of board b, into *out. */
#define GETTER(name, kind, expression)                                       \
    int name(Handle device, uint32_t *out) {                                 \
        BEGIN(kind);                                                         \
        if (code < 0) value = (uint64_t)(expression), code = leave(OK);      \
        return give(out, code, value);                                       \
    }

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (!enter()) return 9; /* driver not loaded */
    if (opened_by != getpid()) inits = 0;
    opened_by = getpid();
    inits++;
    return leave(OK);
}

int nvmlShutdown(void) {
    if (!inits || opened_by != getpid()) return UNINITIALIZED;
    inits--;
    return OK;
}

int fake_open_count(void) { return opened_by == getpid() ? inits : 0; }
void fake_forget(void) { inits = 0; } /* what earlier tests of this process left open */

const char *nvmlErrorString(int code) { return code ? "fake error" : "Success"; }
int nvmlSystemGetDriverVersion(char *out, uint32_t size) { return give_text(out, size, "570.99.01"); }

int nvmlDeviceGetCount_v2(uint32_t *out) {
    if (!inits || opened_by != getpid()) return UNINITIALIZED;
    if (!enter()) return UNKNOWN;
    *out = state->count;
    return leave(OK);
}

int nvmlDeviceGetHandleByIndex_v2(uint32_t index, Handle *out) {
    Board *b;
    int code = begin((Handle)(uintptr_t)(index + 1), IDENTITY, &b, NULL);
    if (code >= 0) return code;
    *out = (Handle)(uintptr_t)(index + 1);
    return leave(OK);
}

/* A slice's UUID is its board's with MIG- for GPU- and the slice's number for the last digit. */
static void slice_uuid(const Board *b, uint32_t slice, char *out) {
    sprintf(out, "MIG-%s", b->uuid + 4);
    out[strlen(out) - 1] = (char)('0' + slice);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Handle *out) {
    char slice[104];
    uintptr_t found = 0;
    if (!inits || opened_by != getpid()) return UNINITIALIZED;
    if (!enter()) return UNKNOWN;
    for (uint32_t i = 0; i < state->count; i++) {
        Board *b = &state->boards[i];
        if (!strcmp(uuid, b->uuid)) found = i + 1;
        for (uint32_t s = 0; b->mig_mode && s < b->mig_slices; s++) {
            slice_uuid(b, s, slice);
            if (!strcmp(uuid, slice)) found = i + 1 + 0x100 * (s + 1);
        }
    }
    if (!found) return leave(NOT_FOUND);
    int code = planted(&state->boards[(found & 0xff) - 1].faults[EVERYTHING], NULL);
    if (code < 0) *out = (Handle)found;
    return leave(code < 0 ? OK : code);
}

int nvmlDeviceGetName(Handle device, char *out, uint32_t size) {
    BEGIN(IDENTITY);
    return code < 0 ? leave(give_text(out, size, b->name)) : code;
}

int nvmlDeviceGetUUID(Handle device, char *out, uint32_t size) {
    char text[104];
    BEGIN(IDENTITY);
    if (code >= 0) return code;
    if ((uintptr_t)device >> 8) slice_uuid(b, (uint32_t)((uintptr_t)device >> 8) - 1, text);
    else strcpy(text, b->uuid);
    return leave(give_text(out, size, text));
}

int nvmlDeviceGetPciInfo_v3(Handle device, Pci *out) {
    BEGIN(IDENTITY);
    if (code >= 0) return code;
    memset(out, 0, sizeof *out);
    strcpy(out->busId, b->pci_bus_id);
    sscanf(b->pci_bus_id, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    return leave(OK);
}

GETTER(nvmlDeviceGetEnforcedPowerLimit, LIMIT, b->power_limit_mw)
GETTER(nvmlDeviceGetPowerManagementLimit, LIMIT, b->power_limit_mw)
GETTER(nvmlDeviceGetPowerUsage, POWER, 1e3 * (b->usage_is_average ? average_w(b, b->settled_s)
                                                                  : power_w(b, b->settled_s, b->usage_scope)))

#ifndef NO_TOTAL_ENERGY
int nvmlDeviceGetTotalEnergyConsumption(Handle device, uint64_t *out) {
    BEGIN(ENERGY);
    if (code < 0) value = (uint64_t)(1e3 * b->shown_j), code = leave(OK);
    if (code == OK) *out = value;
    return code;
}
#endif

#ifndef NO_FIELD_VALUES
static void read_field(Board *b, FieldValue *f) {
    int instant = f->fieldId == FIELD_POWER_INSTANT, scope = (int)f->scopeId;
    f->valueType = 1; /* unsigned int */
    f->nvmlReturn = NOT_SUPPORTED;
    if (!instant && f->fieldId != FIELD_POWER_AVERAGE) return;
    if (scope > SCOPE_MODULE || (scope == SCOPE_MODULE && b->module_extra_w <= 0)) return;
    f->nvmlReturn = OK;
    f->value.ui = (uint32_t)(1e3 * (instant ? power_w(b, b->settled_s, f->scopeId) : average_w(b, b->settled_s)));
}

int nvmlDeviceGetFieldValues(Handle device, int count, FieldValue *fields) {
    BEGIN(POWER_FIELD);
    if (code > 0) return code;
    for (int i = 0; i < count; i++) {
        read_field(b, &fields[i]);
        if (code == OK) fields[i].nvmlReturn = OK, fields[i].value.ui = (uint32_t)value;
    }
    return code == OK ? OK : leave(OK);
}
#endif

static int read_clock(Handle device, uint32_t type, uint32_t id, uint32_t *out) {
    BEGIN(id == ID_CURRENT ? CLOCK : GET_APPLICATION);
    if (code >= 0) return give(out, code, value);
    if (id != ID_CURRENT && !b->application_default_mhz) return leave(NOT_SUPPORTED);
    if (type == CLOCK_MEMORY) value = id == ID_APP ? b->application_memory_mhz : b->memory_mhz[0];
    else if (id == ID_CURRENT) value = clock_mhz(b, b->settled_s);
    else value = id == ID_APP ? b->application_mhz : b->application_default_mhz;
    return give(out, leave(OK), value);
}

int nvmlDeviceGetClockInfo(Handle device, uint32_t type, uint32_t *out) {
    return read_clock(device, type, ID_CURRENT, out);
}
int nvmlDeviceGetApplicationsClock(Handle device, uint32_t type, uint32_t *out) {
    return read_clock(device, type, ID_APP, out);
}
int nvmlDeviceGetDefaultApplicationsClock(Handle device, uint32_t type, uint32_t *out) {
    return read_clock(device, type, ID_APP_DEFAULT, out);
}
int nvmlDeviceGetMaxClockInfo(Handle device, uint32_t type, uint32_t *out) {
    BEGIN(CLOCK);
    if (code < 0) value = type == CLOCK_MEMORY ? b->memory_mhz[0] : b->clocks_mhz[0], code = leave(OK);
    return give(out, code, value);
}

static int give_list(uint32_t *count, uint32_t *out, const uint32_t *list, uint32_t size) {
    uint32_t room = *count;
    *count = size;
    if (!size) return OK;
    if (!out || room < size) return INSUFFICIENT_SIZE;
    memcpy(out, list, size * sizeof *list);
    return OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Handle device, uint32_t *count, Process *out) {
    BEGIN(PROCESSES);
    if (code >= 0) return code;
    uint32_t room = *count;
    *count = (uint32_t)b->others;
    if (*count && (!out || room < *count)) return leave(INSUFFICIENT_SIZE);
    for (uint32_t i = 0; i < *count; i++) out[i] = (Process){.pid = 0x400001 + i}; /* above Linux's highest */
    return leave(OK);
}

int nvmlDeviceGetSupportedMemoryClocks(Handle device, uint32_t *count, uint32_t *out) {
    BEGIN(SUPPORTED);
    return code < 0 ? leave(give_list(count, out, b->memory_mhz, b->memory_count)) : code;
}

int nvmlDeviceGetSupportedGraphicsClocks(Handle device, uint32_t memory_mhz, uint32_t *count, uint32_t *out) {
    BEGIN(SUPPORTED);
    if (code >= 0) return code;
    for (uint32_t i = 0; i < b->memory_count; i++)
        if (b->memory_mhz[i] == memory_mhz) return leave(give_list(count, out, b->clocks_mhz, b->clock_count));
    return leave(NOT_FOUND);
}

static GETTER(read_temperature, TEMPERATURE, b->temperature_c)
int nvmlDeviceGetTemperature(Handle device, uint32_t sensor, uint32_t *out) {
    return sensor ? INVALID_ARGUMENT : read_temperature(device, out);
}
int nvmlDeviceGetTemperatureV(Handle device, Temperature *out) {
    return nvmlDeviceGetTemperature(device, out->sensor, (uint32_t *)&out->temperature);
}

static int read_reasons(Handle device, uint64_t *out) {
    BEGIN(THROTTLE);
    if (code < 0) {
        value = b->throttle | (b->load <= 0 ? REASON_IDLE : 0);
        if (b->application_mhz != b->application_default_mhz) value |= REASON_APPLICATIONS;
        code = leave(OK);
    }
    if (code == OK) *out = value;
    return code;
}
#ifndef NO_EVENT_REASONS
int nvmlDeviceGetCurrentClocksEventReasons(Handle device, uint64_t *out) { return read_reasons(device, out); }
#endif
int nvmlDeviceGetCurrentClocksThrottleReasons(Handle device, uint64_t *out) { return read_reasons(device, out); }

int nvmlDeviceGetAPIRestriction(Handle device, uint32_t type, uint32_t *out) {
    BEGIN(RESTRICTION);
    if (code < 0) code = leave(type ? NOT_SUPPORTED : OK), value = b->application_restricted;
    return give(out, code, value);
}

int nvmlDeviceGetMigMode(Handle device, uint32_t *current, uint32_t *pending) {
    BEGIN(MIG);
    if (code < 0) value = b->mig_mode, code = leave(OK);
    *pending = (uint32_t)value;
    return give(current, code, value);
}

int nvmlDeviceGetCudaComputeCapability(Handle device, int *major, int *minor) {
    BEGIN(CAPABILITY);
    if (code < 0) value = b->capability, code = leave(OK);
    *major = (int)(value / 10);
    *minor = (int)(value % 10);
    return code;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Handle device, Handle *out) {
    if (!((uintptr_t)device >> 8)) return INVALID_ARGUMENT;
    *out = (Handle)((uintptr_t)device & 0xff);
    return OK;
}

/* ---- setters ---- */

/* Blocks as long as the driver would, without the lock, then locks and lets the old clock run on for the lag. */
static int begin_set(Handle device, int kind, Board **board, const char *call, uint32_t first, uint32_t second) {
    int code = begin(device, kind, board, NULL);
    if (code >= 0) {
        if (code != UNINITIALIZED && enter())
            log_call(&state->boards[((uintptr_t)device & 0xff) - 1], call, first, second, code), leave(OK);
        return code;
    }
    double delay_s = (*board)->set_delay_s;
    leave(OK);
    usleep((useconds_t)(1e6 * delay_s));
    if (!enter()) return UNKNOWN;
    double now = settle(*board);
    log_call(*board, call, first, second, OK);
    (*board)->clock_before_mhz = clock_mhz(*board, now);
    (*board)->clock_change_s = now + (*board)->clock_lag_s;
    return -1;
}

#ifndef NO_LOCKED_CLOCKS
int nvmlDeviceSetGpuLockedClocks(Handle device, uint32_t low, uint32_t high) {
    Board *b;
    if (!low || low > high) return INVALID_ARGUMENT;
    int code = begin_set(device, SET_LOCKED, &b, "set_locked_clocks", low, high);
    if (code >= 0) return code;
    b->lock_low_mhz = low;
    b->lock_high_mhz = high;
    return leave(OK);
}

int nvmlDeviceResetGpuLockedClocks(Handle device) {
    Board *b;
    int code = begin_set(device, RESET_LOCKED, &b, "reset_locked_clocks", 0, 0);
    if (code >= 0) return code;
    b->lock_low_mhz = b->lock_high_mhz = 0;
    return leave(OK);
}
#endif

int nvmlDeviceSetApplicationsClocks(Handle device, uint32_t memory, uint32_t graphics) {
    Board *b;
    int code = begin_set(device, SET_APPLICATION, &b, "set_applications_clocks", memory, graphics);
    if (code >= 0) return code;
    if (!b->application_default_mhz) return leave(NOT_SUPPORTED);
    if (highest_at_most(b, graphics) != graphics) return leave(INVALID_ARGUMENT);
    b->application_memory_mhz = memory;
    b->application_mhz = graphics;
    return leave(OK);
}

int nvmlDeviceResetApplicationsClocks(Handle device) {
    Board *b;
    int code = begin_set(device, SET_APPLICATION, &b, "reset_applications_clocks", 0, 0);
    if (code >= 0) return code;
    b->application_memory_mhz = b->memory_mhz[0];
    b->application_mhz = b->application_default_mhz;
    return leave(OK);
}
