package trace

import "time"

// Kind is what a span is to others, as OpenTelemetry has it.
type Kind uint8

// The kinds.
const (
	Internal Kind = iota
	Producer      // sends a message
	Consumer      // takes one
)

// Span is a piece of work that has ended.
type Span struct {
	Name       string
	Kind       Kind
	Context    Context   // its own
	Parent     Context   // none: its trace begins with it
	Links      []Context // spans that it has to do with, and that are not its parent
	Begin, End time.Time
	Attributes []Attribute
	Error      string // what went wrong; empty = nothing
}

// Attribute says something of a span. Its value is a string where that is not empty,
// else a number.
type Attribute struct {
	Key    string
	Text   string
	Number int64
}

// Tracer decides which messages are traced, and takes their spans. Every goroutine may
// call it, and it waits for nobody.
type Tracer interface {
	// Takes decides on a message: parent is where it stands in the trace that it brings,
	// if any.
	Takes(parent Context) bool
	// Record takes spans. They are the tracer's from then on.
	Record(spans ...*Span)
}

// Text and Number are attributes.
func Text(key, value string) Attribute { return Attribute{Key: key, Text: value} }
func Number[T int | int64 | uint64](key string, value T) Attribute {
	return Attribute{Key: key, Number: int64(value)}
}

// MostLinks is how many links a span has: those beyond are left out.
const MostLinks = 128

// Attributes of spans; OpenTelemetry's conventions for messaging name the first ones.
const (
	System        = "messaging.system"
	Operation     = "messaging.operation.name"
	OperationType = "messaging.operation.type"
	Destination   = "messaging.destination.name"
	Template      = "messaging.destination.template"
	PartitionID   = "messaging.destination.partition.id"
	BodySize      = "messaging.message.body.size"
	BatchCount    = "messaging.batch.message_count"
	Job           = "eusn.job"
	Key           = "eusn.key"
	Input         = "eusn.input"
	Samples       = "eusn.samples"
	Predictions   = "eusn.predictions"
	Outcome       = "eusn.outcome" // "repeat": the message had come before
)

// OfMessage are the attributes of a span that sends or takes a message.
func OfMessage(operation, kind, subject, template string) []Attribute {
	return []Attribute{Text(System, "nats"), Text(Operation, operation), Text(OperationType, kind), Text(Destination, subject), Text(Template, template)}
}

// Stats are what a Tracer has done.
type Stats struct {
	Sent    uint64 // spans that the collector has taken
	Dropped uint64 // spans for which there was no room, or that the collector did not take
	Limited uint64 // messages that were not traced, because more were in a second than may be
}
