package fleet

import (
	"slices"
	"strings"
	"time"
)

// Form is the version of Report and Process as JSON. Fields may be added under the
// same number; a field that is there keeps its name and meaning.
const Form = 1

// Report is how a job is: what its processes say, and what the server says. Times
// that pass are in seconds; rates are per second.
type Report struct {
	Form    int       `json:"form"` // Form
	Job     string    `json:"job"`
	Time    time.Time `json:"time"`   // when it was made, by the clock of who asked
	Took    float64   `json:"took_s"` // to make it
	Level   Level     `json:"level"`  // of the worst finding
	Verdict string    `json:"verdict"`
	// First is what to do first: that of the first finding; empty where nothing is to do.
	First    string    `json:"first,omitempty"`
	Findings []Finding `json:"findings"` // the most urgent first

	// Workers, gateways and processes of alarms that answer, in order of host and process.
	Processes []Process `json:"processes"`
	// Silent are workers of the job's list that do not answer: they ended without
	// leaving (their lease runs out), or hang.
	Silent []string `json:"silent_workers,omitempty"`

	// Vanished are processes that sent heartbeats within the last hour, do not answer now, and
	// did not end in order.
	Vanished []Sighting `json:"vanished,omitempty"`

	Strange int `json:"strange_answers"` // answers that were none: of other programs, or of another form

	Model      JobModel   `json:"model"`
	Partitions Partitions `json:"partitions"`
	Lag        Lag        `json:"lag"`
	Rates      Rates      `json:"rates"` // of all workers together
	Alarms     Alarms     `json:"alarms"`
	Disk       Disk       `json:"disk"`
	Errors     []Said     `json:"errors"`  // of all processes, the newest first, at most MostErrors
	Marks      []Mark     `json:"marks"`   // the newest first, at most MostMarks
	Unknown    []string   `json:"unknown"` // what could not be asked, and why, a sentence each
}

// Level is how urgent something is.
type Level string

// The levels.
const (
	OK        Level = "ok"        // nothing to do
	Attention Level = "attention" // every sample is answered, but somebody should look
	Problem   Level = "problem"   // samples are not answered, or nobody can tell
)

// Finding is one thing that somebody should know.
type Finding struct {
	Level    Level  `json:"level"`
	About    string `json:"about"` // one word: workers, partitions, lag, model, alarms, disk, ...
	Sentence string `json:"sentence"`
	Do       string `json:"do,omitempty"` // a command or a sentence; it never destroys anything
}

// JobModel is which model the job runs.
type JobModel struct {
	Name    string `json:"name"`    // as the first worker called it
	SHA256  string `json:"sha256"`  // of that model
	Readout string `json:"readout"` // its name in that model
	// Promoted is the fingerprint of the readout that answers since the last promotion;
	// empty = the one that the job began with.
	Promoted   string   `json:"promoted,omitempty"`
	Promotions uint64   `json:"promotions"` // how many there were
	Shadows    []string `json:"shadows"`    // fingerprints
	Differ     bool     `json:"differ"`     // the workers that answer have not all the same model
}

// Partitions are those of the job.
type Partitions struct {
	Count int `json:"count"`
	// Phases is how many are in which phase: pipeline.Phases, Nobody and Unasked.
	Phases map[string]int `json:"phases"`
	// List is in order of their numbers. Of more than MostPartitions, those are in it that
	// are not read, and then those that are furthest behind.
	List    []Partition `json:"list"`
	LeftOut int         `json:"left_out"` // of List
	// Lost says that the server has lost the position of each partition, and how that shows.
	Lost string `json:"lost,omitempty"`
	// Regain is what to do about that.
	Regain string `json:"-"`
}

// Phases of partitions that no worker speaks of.
const (
	Nobody  = "nobody"  // no process that answers has it
	Unasked = "unasked" // it could not be asked who has it
)

// Partition is one of them.
type Partition struct {
	Partition int      `json:"partition"`
	Phase     string   `json:"phase"`
	Worker    string   `json:"worker,omitempty"` // who says so; empty: it is from the partition's record
	Epoch     uint64   `json:"epoch"`            // rises with every claim; 0 = never claimed
	Lag       int64    `json:"lag"`              // input messages stored and not answered
	Behind    *float64 `json:"behind_s"`         // age of the oldest of these; 0 = none, nil (null) = not known
	Unsaved   float64  `json:"unsaved_s"`        // for so long no snapshot has what is answered; a restart replays it
	Why       string   `json:"why,omitempty"`    // it is not read
}

// Lag is how far the job is behind its input.
type Lag struct {
	Messages int64    `json:"messages"`   // stored and not answered, of all partitions
	Behind   *float64 `json:"behind_s"`   // age of the oldest of these, as far as is known; 0 = none, nil (null) = not known
	Unknown  int      `json:"unknown"`    // partitions of which it is not known
	Answered float64  `json:"answered_s"` // since a worker answered a sample; where none says so, since the output's last message; -1 = there is none
	Arrived  float64  `json:"arrived_s"`  // since the input's last message; -1 = there is none
}

// behind is Behind, 0 where it is not known.
func (l *Lag) behind() float64 {
	if l.Behind == nil {
		return 0
	}
	return *l.Behind
}

// Rates are a mean over the last seconds.
type Rates struct {
	Over        float64 `json:"over_s"` // so many of them; 0 = not known yet
	Messages    float64 `json:"messages"`
	Samples     float64 `json:"samples"`
	Predictions float64 `json:"predictions"`
	Replayed    float64 `json:"replayed"` // messages, to rebuild states
}

// Alarms are those of the job that are on.
type Alarms struct {
	Kept    bool    `json:"kept"`     // the job has an alarm log
	On      int     `json:"on"`       // raised or acknowledged
	Open    int     `json:"open"`     // of these, not acknowledged
	List    []Alarm `json:"list"`     // the newest first, at most MostAlarms
	LeftOut int     `json:"left_out"` // of List
	// Outputs are webhook and mqtt, whose consumers on the server hold the position.
	Outputs []Output `json:"outputs,omitempty"`
	// Quiet are streams for which an alarm of a rule "silent" is on, at most MostAlarms. Without
	// such a rule (Watched is false), nobody knows which streams are silent.
	Watched bool     `json:"silence_watched"`
	Quiet   []string `json:"silent_streams"`
}

// Output is how far an output of the alarms is.
type Output struct {
	Name    string `json:"name"`
	Waiting uint64 `json:"waiting"`           // events that are not sent yet
	Paused  bool   `json:"paused,omitempty"`  // by somebody: the process of alarms resumes it
	Differs string `json:"differs,omitempty"` // in what somebody has changed its consumer: the process of alarms makes it again
}

// Alarm is one that is on.
type Alarm struct {
	Rule         string    `json:"rule"`
	Key          string    `json:"key"`
	Since        time.Time `json:"since"` // it was raised or acknowledged
	Acknowledged string    `json:"acknowledged_by,omitempty"`
}

// Disk is what the job has on the server.
type Disk struct {
	Bytes   uint64       `json:"bytes"`         // now
	PerDay  float64      `json:"bytes_per_day"` // a mean over the time that each NATS stream holds
	Over    float64      `json:"over_s"`        // the longest of these times
	Streams []DiskStream `json:"streams"`
	// Limit is what the account may store, and Used what it does, of all jobs; 0 = no
	// limit, or not known.
	Limit uint64 `json:"limit_bytes"`
	Used  uint64 `json:"used_bytes"`
}

// DiskStream is one NATS stream of the job.
type DiskStream struct {
	Stream string   `json:"stream"`
	Bytes  uint64   `json:"bytes"`
	PerDay float64  `json:"bytes_per_day"`
	Bounds []string `json:"bounds"` // its limits, as "max_age 24h0m0s"; none: only the disk
}

// Bounds of what a report lists.
const (
	MostPartitions = 1024
	MostAlarms     = 100
	MostErrors     = 20
	MostMarks      = 20
)

// What a report is made of, each of which may be unknown: where the server has not answered, or
// the login may not ask.
const (
	AboutProcesses = "the processes"
	AboutModel     = "the model"
	AboutAlarms    = "the alarms"
	AboutDisk      = "the disk"
)

// Knows reports whether one of these could be asked. Where it could not, the zero in the report
// says nothing.
func (r *Report) Knows(about string) bool {
	return !slices.ContainsFunc(r.Unknown, func(why string) bool { return strings.HasPrefix(why, about+": ") })
}
