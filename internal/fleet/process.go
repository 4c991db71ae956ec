package fleet

import "time"

// Process is the status of a process: the answer on Subject, as JSON. Exactly one of Stage, Gateway
// and Watch is set.
type Process struct {
	Form    int          `json:"form"` // Form
	Role    string       `json:"role"` // RoleStage, RoleGateway or RoleAlarms
	Job     string       `json:"job"`
	ID      string       `json:"id"` // of the process, constant while it runs
	Host    string       `json:"host"`
	PID     int          `json:"pid"`
	Program string       `json:"program"` // version
	Started time.Time    `json:"started"`
	Time    time.Time    `json:"time"`   // of the answer, by the process's clock
	Errors  []LogMessage `json:"errors"` // newest first, at most MostErrors
	Marks   []Mark       `json:"marks"`  // newest first, at most MostMarks

	// Certificates are the process's certificates with known expiry.
	Certificates []Certificate `json:"certificates,omitempty"`

	Stage   *Stage   `json:"stage,omitempty"`
	Gateway *Gateway `json:"gateway,omitempty"`
	Watch   *Watch   `json:"alarms,omitempty"`
}

// Roles of processes.
const (
	RoleStage   = "stage"   // a worker: eusn-stream run
	RoleGateway = "gateway" // eusn-stream gateway
	RoleAlarms  = "alarms"  // eusn-stream alarms run
)

// Certificate is a certificate in use by a process.
type Certificate struct {
	Key  string    `json:"key"` // configuration key of the certificate's file
	Ends time.Time `json:"ends"`
}

// Stage is the status of a worker.
type Stage struct {
	Worker  string   `json:"worker"`  // unique name in the job; empty during the start
	Ready   bool     `json:"ready"`   // as in /readyz
	Unready []string `json:"unready"` // reasons, at most MostReasons
	Model   Model    `json:"model"`
	Engines []string `json:"engines"` // distinct names

	// Behind is the number of replicas of the job's NATS streams that are not current.
	Behind int64 `json:"replicas_behind"`

	Phases     map[string]int `json:"phases"`     // number of partitions in each phase
	Partitions []Partition    `json:"partitions"` // without Worker; partitions that are not read first, then by lag
	LeftOut    int            `json:"left_out"`   // of Partitions

	Answered float64  `json:"answered_s"` // time since the last answered sample, updated each second; -1 = none since the start
	Lag      int64    `json:"lag"`        // messages, of all its partitions
	Rates    Rates    `json:"rates"`
	Totals   Totals   `json:"totals"`
	Flags    Counts   `json:"flags"`   // predictions by flag
	Classes  Counts   `json:"classes"` // predictions by class, the MostClasses most frequent
	Shadows  []Shadow `json:"shadows"`

	Sightings []Sighting `json:"sightings,omitempty"` // processes with a heartbeat in the last hour

	Streams    int64  `json:"streams"`     // number in memory
	MaxStreams int    `json:"max_streams"` // limit for each partition
	Idle       uint64 `json:"idle"`        // sequences ended by a stream's silence
}

// Counts are numbers of occurrences by name.
type Counts map[string]uint64

// Model identifies a worker's model.
type Model struct {
	Name       string `json:"name"`
	SHA256     string `json:"sha256"`
	Readout    string `json:"readout"`
	Arithmetic string `json:"arithmetic"`
}

// Totals are counts since the start of the process.
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

// Shadow compares a shadow readout with the answering readout.
type Shadow struct {
	Readout     string `json:"readout"` // fingerprint
	Predictions uint64 `json:"predictions"`
	Missed      uint64 `json:"missed"`
	Agreeing    uint64 `json:"agreeing"`
}

// Gateway is the status of a gateway, since its start.
type Gateway struct {
	Messages    Counts `json:"messages"` // by input
	Refused     Counts `json:"refused"`  // by input
	Samples     uint64 `json:"samples"`
	Unreadable  uint64 `json:"unreadable"`
	Dropped     uint64 `json:"dropped"`
	Missed      uint64 `json:"missed"`
	HoldingBack bool   `json:"holding_back"` // the gateway does not acknowledge devices
	Unwritable  bool   `json:"unwritable"`   // because its outbox cannot be written
	Waiting     int64  `json:"waiting"`      // batches in the outbox
	OutboxBytes int64  `json:"outbox_bytes"`
	Rates       Rates  `json:"rates"` // only Messages and Samples
}

// Watch is the status of an alarm process.
type Watch struct {
	Begun   bool   `json:"begun"`             // caught up with the log, and judging
	Standby bool   `json:"standby,omitempty"` // this process follows another process that keeps the alarms
	Rules   int    `json:"rules"`             // current at the start
	Events  uint64 `json:"events"`            // published events
}

// LogMessage is a warning or an error of a process's log.
type LogMessage struct {
	Time  time.Time `json:"time"`           // of the last occurrence
	Level string    `json:"level"`          // WARN or ERROR
	Text  string    `json:"text"`           // with its attributes, one line, shortened
	Times int       `json:"times"`          // consecutive occurrences
	From  string    `json:"from,omitempty"` // host and process; only in reports
}

// Mark is an event at a time.
type Mark struct {
	Time time.Time `json:"time"`
	Kind string    `json:"kind"` // started, joined, promoted
	Text string    `json:"text"`
}

// Kinds of marks.
const (
	MarkStarted  = "started"  // a process started
	MarkJoined   = "joined"   // the stage joined or rejoined the job under a name
	MarkPromoted = "promoted" // another readout answers
)

// Limits of a process's lists.
const (
	MostReasons = 8
	// MostCertificates is the maximum number of certificates in an answer.
	MostCertificates = 16
	MostClasses      = 32
)
