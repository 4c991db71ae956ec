package fleet

import "time"

// Process is what a process of a job says of itself: the answer on Subject, as JSON.
// Exactly one of Stage, Gateway and Watch is there.
type Process struct {
	Form    int       `json:"form"` // Form
	Role    string    `json:"role"` // RoleStage, RoleGateway or RoleAlarms
	Job     string    `json:"job"`
	ID      string    `json:"id"` // of the process, for as long as it runs
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Program string    `json:"program"` // its version
	Started time.Time `json:"started"`
	Time    time.Time `json:"time"`   // of the answer, by its clock
	Errors  []Said    `json:"errors"` // the newest first, at most MostErrors
	Marks   []Mark    `json:"marks"`  // the newest first, at most MostMarks

	// Certificates are those that the process uses, with known ends.
	Certificates []Certificate `json:"certificates,omitempty"`

	Stage   *Stage   `json:"stage,omitempty"`
	Gateway *Gateway `json:"gateway,omitempty"`
	Watch   *Watch   `json:"alarms,omitempty"`
}

// What a process is for.
const (
	RoleStage   = "stage"   // a worker: eusn-stream run
	RoleGateway = "gateway" // eusn-stream gateway
	RoleAlarms  = "alarms"  // eusn-stream alarms run
)

// Certificate is one that a process uses.
type Certificate struct {
	Key  string    `json:"key"` // of the configuration, which names its file
	Ends time.Time `json:"ends"`
}

// Stage is what a worker says.
type Stage struct {
	Worker  string   `json:"worker"`  // its name among the job's; empty while it starts
	Ready   bool     `json:"ready"`   // as /readyz has it
	Unready []string `json:"unready"` // why it is not, at most MostReasons
	Model   Model    `json:"model"`
	Engines []string `json:"engines"` // names, each once

	// Behind are replicas of the job's NATS streams that are not current.
	Behind int64 `json:"replicas_behind"`

	Phases     map[string]int `json:"phases"`     // partitions in each phase, of all it has
	Partitions []Partition    `json:"partitions"` // without Worker; those that are not read first, then by lag
	LeftOut    int            `json:"left_out"`   // of Partitions

	Answered float64  `json:"answered_s"` // since a sample was answered, to a second; -1 = none was since it began
	Lag      int64    `json:"lag"`        // messages, of all its partitions
	Rates    Rates    `json:"rates"`
	Totals   Totals   `json:"totals"`
	Flags    Counts   `json:"flags"`   // predictions by flag
	Classes  Counts   `json:"classes"` // predictions by class, the MostClasses most frequent
	Shadows  []Shadow `json:"shadows"`

	Sightings []Sighting `json:"sightings,omitempty"` // processes with a heartbeat in the last hour

	Streams    int64  `json:"streams"`     // remembered now
	MaxStreams int    `json:"max_streams"` // that each partition may remember
	Idle       uint64 `json:"idle"`        // sequences that a stream's silence has ended
}

// Counts are how often something occurred, by its name.
type Counts map[string]uint64

// Model is which model a worker has.
type Model struct {
	Name       string `json:"name"`
	SHA256     string `json:"sha256"`
	Readout    string `json:"readout"`
	Arithmetic string `json:"arithmetic"`
}

// Totals are counts since the process began.
type Totals struct {
	Messages    uint64 `json:"messages"`
	Samples     uint64 `json:"samples"`
	Predictions uint64 `json:"predictions"`
	DeadLetters uint64 `json:"dead_letters"`
	Duplicates  uint64 `json:"duplicates"`
	Gaps        uint64 `json:"gaps"`
	Losses      uint64 `json:"losses"`
	Retries     uint64 `json:"retries"`
	Claims      uint64 `json:"claims"`
	Fenced      uint64 `json:"fenced"`
	Replayed    uint64 `json:"replayed"`
}

// Shadow is what a readout has predicted beside the one that answers.
type Shadow struct {
	Readout     string `json:"readout"` // fingerprint
	Predictions uint64 `json:"predictions"`
	Missed      uint64 `json:"missed"`
	Agreeing    uint64 `json:"agreeing"`
}

// Gateway is what a gateway says, since it began.
type Gateway struct {
	Messages    Counts `json:"messages"` // by input
	Refused     Counts `json:"refused"`  // by input
	Samples     uint64 `json:"samples"`
	Unreadable  uint64 `json:"unreadable"`
	Dropped     uint64 `json:"dropped"`
	Missed      uint64 `json:"missed"`
	HoldingBack bool   `json:"holding_back"` // it acknowledges no device
	Waiting     int64  `json:"waiting"`      // batches in the outbox
	OutboxBytes int64  `json:"outbox_bytes"`
	Rates       Rates  `json:"rates"` // Messages and Samples of it
}

// Watch is what a process of alarms says.
type Watch struct {
	Begun   bool   `json:"begun"`             // it has caught up with the log, and judges
	Standby bool   `json:"standby,omitempty"` // another process keeps the alarms, and this one follows it
	Rules   int    `json:"rules"`             // that held when it began
	Events  uint64 `json:"events"`            // that it has published
}

// Said is a warning or an error of a process' log.
type Said struct {
	Time  time.Time `json:"time"`           // last
	Level string    `json:"level"`          // WARN or ERROR
	Text  string    `json:"text"`           // with its attributes, in one line, cut
	Times int       `json:"times"`          // in a row
	From  string    `json:"from,omitempty"` // host and process; in a report only
}

// Mark is something that happened at a time.
type Mark struct {
	Time time.Time `json:"time"`
	Kind string    `json:"kind"` // started, joined, promoted
	Text string    `json:"text"`
}

// Kinds of marks.
const (
	MarkStarted  = "started"  // a process began
	MarkJoined   = "joined"   // its stage came to the job under a name, at its start or again
	MarkPromoted = "promoted" // another readout answers
)

// More bounds of what a process says.
const (
	MostReasons = 8
	// MostCertificates is how many of them are in an answer.
	MostCertificates = 16
	MostClasses      = 32
)
