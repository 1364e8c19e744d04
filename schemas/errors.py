"""Errors that a user can act on; anything else that escapes is a defect of ours (exit code 3)."""


class EnergyoptError(Exception):
    """What happened, the numbers, and what to do, in one line. The command line exits with 2."""


class FileFormatError(EnergyoptError):
    """A file cannot be read as what it should be; the text names the file, the field and the row."""


class ProfileError(EnergyoptError):
    """A profile's rows contradict each other, are incomplete, or do not fit the request."""


class ScheduleError(EnergyoptError):
    """A pipeline schedule is impossible: incomplete, cyclic, or not defined for these sizes."""


class RequestError(EnergyoptError):
    """No plan can serve the request; the text says what the nearest reachable one is."""


class NotComparableError(EnergyoptError):
    """Two files describe different jobs, so a difference between them would mean nothing."""


class SolverError(EnergyoptError):
    """A solver gave no answer, or one that the independent check refused."""


class DeviceError(EnergyoptError):
    """A GPU cannot be found, opened or read as asked."""


class ClockControlError(DeviceError):
    """A clock cannot be set or given back; the text names the missing right and the ways out."""


class WorkloadError(EnergyoptError):
    """A workload's description is impossible, or its kernels fail."""


class MeasurementError(EnergyoptError):
    """Nothing trustworthy can be measured here, or a run cannot be resumed."""
