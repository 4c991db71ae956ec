package trace

import "time"

// Kind is the role of a span, as in OpenTelemetry.
type Kind uint8

// The kinds.
const (
	Internal Kind = iota
	Producer      // sends a message
	Consumer      // receives a message
)

// Span is a finished operation.
type Span struct {
	Name       string
	Kind       Kind
	Context    Context   // of this span
	Parent     Context   // no context: the first span of its trace
	Links      []Context // related spans, except the parent
	Begin, End time.Time
	Attributes []Attribute
	Error      string // empty = success
}

// Attribute is a property of a span. Its value is Text, or Number if Text is empty.
type Attribute struct {
	Key    string
	Text   string
	Number int64
}

// Tracer selects messages for tracing, and records their spans. Any goroutine may call it; its
// methods do not block.
type Tracer interface {
	// Takes reports whether a message is traced; parent is the message's context, if any.
	Takes(parent Context) bool
	// Record records spans. The tracer owns them afterward.
	Record(spans ...*Span)
}

// Text and Number return attributes.
func Text(key, value string) Attribute { return Attribute{Key: key, Text: value} }
func Number[T int | int64 | uint64](key string, value T) Attribute {
	return Attribute{Key: key, Number: int64(value)}
}

// MostLinks is the maximum number of links of a span; further links are dropped.
const MostLinks = 128

// Attributes of spans; the first names are from OpenTelemetry's conventions for messaging.
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
	Outcome       = "eusn.outcome" // "repeat": the message is a duplicate
)

// OfMessage returns the attributes of a span that sends or receives a message.
func OfMessage(operation, kind, subject, template string) []Attribute {
	return []Attribute{Text(System, "nats"), Text(Operation, operation), Text(OperationType, kind), Text(Destination, subject), Text(Template, template)}
}

// Stats are the counts of a Tracer.
type Stats struct {
	Sent    uint64 // spans accepted by the collector
	Dropped uint64 // spans dropped because the queue was full, or refused by the collector
	Limited uint64 // messages not traced because of the rate limit
}
