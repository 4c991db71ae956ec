package fleet

import (
	"slices"
	"strings"
	"time"
)

// Form is the version of Report and Process as JSON. New fields keep the version; existing fields
// keep their name and meaning.
const Form = 1

// Report is the status of a job, from its processes and from the server. Durations are in seconds;
// rates are per second.
type Report struct {
	Form    int       `json:"form"` // Form
	Job     string    `json:"job"`
	Time    time.Time `json:"time"`   // creation time, by the asker's clock
	Took    float64   `json:"took_s"` // duration of the creation
	Level   Level     `json:"level"`  // of the worst finding
	Verdict string    `json:"verdict"`
	// First is the first step, from the first finding with a step; empty if nothing is to do.
	First    string    `json:"first,omitempty"`
	Findings []Finding `json:"findings"` // most urgent first

	// Workers, gateways and alarm processes that answered, in order of host and process.
	Processes []Process `json:"processes"`
	// Silent are workers on the job's list that do not answer: they were killed (their lease has
	// not ended yet), or hang.
	Silent []string `json:"silent_workers,omitempty"`

	// Vanished are processes with a heartbeat in the last hour that do not answer and did not end
	// orderly.
	Vanished []Sighting `json:"vanished,omitempty"`

	Strange int `json:"strange_answers"` // invalid answers: of other programs, or of another form

	Model      JobModel     `json:"model"`
	Partitions Partitions   `json:"partitions"`
	Lag        Lag          `json:"lag"`
	Rates      Rates        `json:"rates"` // of all workers together
	Alarms     Alarms       `json:"alarms"`
	Disk       Disk         `json:"disk"`
	Errors     []LogMessage `json:"errors"`  // of all processes, newest first, at most MostErrors
	Marks      []Mark       `json:"marks"`   // newest first, at most MostMarks
	Unknown    []string     `json:"unknown"` // failed requests with their reason, a sentence each
}

// Level is the urgency of a finding.
type Level string

// The levels.
const (
	OK        Level = "ok"        // nothing to do
	Attention Level = "attention" // every sample is answered, but a person should investigate
	Problem   Level = "problem"   // samples are not answered, or this is unknown
)

// Finding is a fact that a person should know.
type Finding struct {
	Level    Level  `json:"level"`
	About    string `json:"about"` // one word: workers, partitions, lag, model, alarms, disk, ...
	Sentence string `json:"sentence"`
	Do       string `json:"do,omitempty"` // a command or a sentence; never destructive
}

// JobModel is the job's model.
type JobModel struct {
	Name    string `json:"name"`    // as named by the first worker
	SHA256  string `json:"sha256"`  // of the model
	Readout string `json:"readout"` // its name in the model
	// Promoted is the fingerprint of the readout that answers since the last promotion; empty = the
	// first readout.
	Promoted   string   `json:"promoted,omitempty"`
	Promotions uint64   `json:"promotions"` // number of promotions
	Shadows    []string `json:"shadows"`    // fingerprints
	Differ     bool     `json:"differ"`     // the answering workers have different models
}

// Partitions are the job's partitions.
type Partitions struct {
	Count int `json:"count"`
	// Phases is the number of partitions in each phase: pipeline.Phases, PhaseNobody and
	// PhaseUnasked.
	Phases map[string]int `json:"phases"`
	// List is in order of numbers. With more than MostPartitions partitions, it has the partitions
	// that are not read, and then those with the largest lag.
	List    []Partition `json:"list"`
	LeftOut int         `json:"left_out"` // of List
	// Lost describes why the server has lost the position of each partition.
	Lost string `json:"lost,omitempty"`
	// Regain is the remedy for Lost.
	Regain string `json:"-"`
}

// Phases of partitions that no worker reports.
const (
	PhaseNobody  = "nobody"  // no answering process has the partition
	PhaseUnasked = "unasked" // the owner is unknown: the request failed or was skipped
)

// Partition is the status of a partition.
type Partition struct {
	Partition int      `json:"partition"`
	Phase     string   `json:"phase"`
	Worker    string   `json:"worker,omitempty"` // the reporting worker; empty: from the partition's record
	Epoch     uint64   `json:"epoch"`            // rises with every claim; 0 = never claimed
	Lag       int64    `json:"lag"`              // stored input messages without an answer
	Behind    *float64 `json:"behind_s"`         // age of the oldest unanswered message; 0 = none, nil (null) = unknown
	Unsaved   float64  `json:"unsaved_s"`        // age of the oldest answer not in a snapshot; a restart replays since then
	Why       string   `json:"why,omitempty"`    // reason for not reading
}

// Lag is the job's delay.
type Lag struct {
	Messages int64    `json:"messages"`   // stored messages without an answer, of all partitions
	Behind   *float64 `json:"behind_s"`   // known age of the oldest unanswered message; 0 = none, nil (null) = unknown
	Unknown  int      `json:"unknown"`    // partitions with unknown lag
	Answered float64  `json:"answered_s"` // time since a worker answered a sample; without a worker's report, since the output's last message; -1 = none
	Arrived  float64  `json:"arrived_s"`  // time since the input's last message; -1 = none
}

// behindSeconds returns Behind, 0 if unknown.
func (l *Lag) behindSeconds() float64 {
	if l.Behind == nil {
		return 0
	}
	return *l.Behind
}

// Rates are means over the last seconds.
type Rates struct {
	Over        float64 `json:"over_s"` // averaging time; 0 = unknown yet
	Messages    float64 `json:"messages"`
	Samples     float64 `json:"samples"`
	Predictions float64 `json:"predictions"`
	Replayed    float64 `json:"replayed"` // messages, to rebuild states
}

// Alarms are the job's active alarms.
type Alarms struct {
	Kept    bool    `json:"kept"`     // the job has an alarm log
	On      int     `json:"on"`       // raised or acknowledged
	Open    int     `json:"open"`     // not acknowledged
	List    []Alarm `json:"list"`     // newest first, at most MostAlarms
	LeftOut int     `json:"left_out"` // of List
	// Outputs are webhook and mqtt, which have consumers on the server.
	Outputs []Output `json:"outputs,omitempty"`
	// Quiet are streams with an active alarm of a silent rule, at most MostAlarms. Without such a
	// rule (Watched is false), silent streams are unknown.
	Watched bool     `json:"silence_watched"`
	Quiet   []string `json:"silent_streams"`
}

// Output is the position of an alarm output.
type Output struct {
	Name    string `json:"name"`
	Waiting uint64 `json:"waiting"`           // events not sent yet
	Paused  bool   `json:"paused,omitempty"`  // the alarm process resumes the consumer
	Differs string `json:"differs,omitempty"` // changed part of the consumer's configuration: the alarm process recreates the consumer
}

// Alarm is an active alarm.
type Alarm struct {
	Rule         string    `json:"rule"`
	Key          string    `json:"key"`
	Since        time.Time `json:"since"` // when raised or acknowledged
	Acknowledged string    `json:"acknowledged_by,omitempty"`
}

// Disk is the job's storage on the server.
type Disk struct {
	Bytes   uint64       `json:"bytes"`         // at present
	PerDay  float64      `json:"bytes_per_day"` // mean over the time span of each NATS stream
	Over    float64      `json:"over_s"`        // the longest time span
	Streams []DiskStream `json:"streams"`
	// Limit is the account's storage limit, Used its use by all jobs; 0 = no limit, or unknown.
	Limit uint64 `json:"limit_bytes"`
	Used  uint64 `json:"used_bytes"`
}

// DiskStream is a NATS stream of the job.
type DiskStream struct {
	Stream string   `json:"stream"`
	Bytes  uint64   `json:"bytes"`
	PerDay float64  `json:"bytes_per_day"`
	Bounds []string `json:"bounds"` // limits, such as "max_age 24h0m0s"; none: only the disk
}

// Limits of a report's lists.
const (
	MostPartitions = 1024
	MostAlarms     = 100
	MostErrors     = 20
	MostMarks      = 20
)

// Parts of a report that may be unknown: the server did not answer, or the login lacks the right.
const (
	AboutProcesses = "the processes"
	AboutModel     = "the model"
	AboutAlarms    = "the alarms"
	AboutDisk      = "the disk"
)

// IsKnown reports whether a part is known. The zero values of an unknown part have no meaning.
func (r *Report) IsKnown(about string) bool {
	return !slices.ContainsFunc(r.Unknown, func(why string) bool { return strings.HasPrefix(why, about+": ") })
}
