package outcome

//go:generate go test -count=1 -run ^TestGenerated$ . -write

// Type is the type of a column's values.
type Type int

// The types of columns.
const (
	Text      Type = iota // utf8
	Time                  // timestamp[ns, UTC]
	Uint64                // uint64
	Uint32                // uint32
	ClassName             // int32: index of a class; in JSON and CSV its name
	Float32               // float32
	Scores                // fixed_size_list<float32>
	ClassList             // list<int32>: indexes of classes; in JSON and CSV their names
	FloatList             // list<float32>
	Flags                 // uint32: bits; in JSON and CSV names
	Word                  // not in messages: follows from the flags
)

// String returns the type in messages, by its Arrow name; empty for Word.
func (t Type) String() string { return typeNames[t] }

var typeNames = map[Type]string{
	Text: "utf8", Time: "timestamp[ns, UTC]", Uint64: "uint64", Uint32: "uint32", Flags: "uint32", ClassName: "int32",
	Float32: "float32", Scores: "fixed_size_list<float32>", ClassList: "list<int32>", FloatList: "list<float32>",
}

// Part is the part of a readout that a column requires.
type Part int

// The parts of readouts.
const (
	Always    Part = iota // all readouts give the column
	Coverage              // sets of classes
	Detector              // distance from the training
	Inputs                // a detector that reads inputs
	Prefixes              // a rule for early predictions
	Regressor             // an interval
)

// Column is a column of predictions. Each output is written from Columns: messages, JSON, CSV,
// Parquet, the live page, the clients and their documentation.
type Column struct {
	Name  string // in JSON, CSV and Parquet
	Arrow string // in messages; empty: not in messages
	Type  Type
	Part  Part
	Null  bool   // a message may have null
	Means string // meaning of the value, for users
	Unit  string // empty: none
	// Absent describes when there is no value: null in messages, empty in CSV, no field in
	// JSON. Empty: there is always a value.
	Absent string
	Docs   string // page of docs that explains the column; empty: none

	// Known reports whether an answer has a value; the value is in Float, Floats or Classes, as
	// the type requires. All are nil for columns outside an Answer, and for class, integrity
	// and flags, which Named writes.
	Known   func(*Answer) bool
	Float   func(*Answer) *float32
	Floats  func(*Answer) *[]float32
	Classes func(*Answer) *[]int32
}

// Columns are all columns of predictions, in the order of JSON. Columns of a Part other than
// Always come last in messages, CSV and Parquet, in this order; a message has the column if any
// of the message's predictions has a value.
var Columns = [...]Column{
	{Name: "stream", Arrow: "stream_id", Type: Text, Means: "name of the stream, such as a machine"},
	{Name: "seq", Arrow: "seq", Type: Uint64, Means: "number of the message that had the sequence's last sample; 0: messages have none"},
	{Name: "row", Arrow: "row", Type: Uint32, Means: "row of that sample in the message, from 0"},
	{Name: "time", Arrow: "ts", Type: Time, Null: true, Means: "time of that sample", Unit: "ns since 1970, UTC", Absent: "the samples have no times"},
	{
		Name: "class", Arrow: "class", Type: ClassName, Means: "predicted class: an index into the list `eusn.labels` of the schema's metadata, a name elsewhere; of a regression always 0, the name of the number",
	},
	{
		Name: "score", Arrow: "score", Type: Float32, Means: "score of the class, comparable only within one model",
		Known: always, Float: func(a *Answer) *float32 { return &a.Score },
	},
	{
		Name: "probability", Arrow: "probability", Type: Float32, Null: true, Means: "probability of the class among the trained classes, above 0, at most 1",
		Absent: "the model gives no probabilities",
		Known:  func(a *Answer) bool { return a.Probability != 0 }, Float: func(a *Answer) *float32 { return &a.Probability },
	},
	{
		Name: "scores", Arrow: "scores", Type: Scores, Means: "scores of all classes; of two classes one, positive for the second", Absent: "the job publishes none",
		Known: func(a *Answer) bool { return len(a.Scores) > 0 }, Floats: func(a *Answer) *[]float32 { return &a.Scores },
	},
	{
		Name: "set", Arrow: "set", Type: ClassList, Part: Coverage, Null: true, Means: "the classes that include the true class, at the model's coverage; only a single class is an answer",
		Absent: "the readout makes no sets", Docs: "sets.md",
		Known: func(a *Answer) bool { return a.Set != nil }, Classes: func(a *Answer) *[]int32 { return &a.Set },
	},
	{
		Name: "novelty", Arrow: "novelty", Type: Float32, Part: Detector, Null: true, Means: "distance of the sequence from the training part: 1 is usual, there is no upper bound",
		Absent: "the readout has no detector, or the sequence has not ended", Docs: "novelty.md",
		Known: judged, Float: func(a *Answer) *float32 { return &a.Novelty },
	},
	{
		Name: "novelty_p", Arrow: "novelty_p", Type: Float32, Part: Detector, Null: true, Means: "p-value of the novelty, above 0, at most 1: the share of sequences like the training's with the same or a greater novelty",
		Absent: "there is no novelty", Docs: "novelty.md",
		Known: judged, Float: func(a *Answer) *float32 { return &a.NoveltyP },
	},
	{
		Name: "inputs", Arrow: "inputs", Type: FloatList, Part: Inputs, Null: true, Means: "level, spread and pace of each channel", Unit: "deviations of the training's sequences",
		Absent: "the readout does not read them, or the sequence has not ended", Docs: "alarm-rules.md",
		Known: func(a *Answer) bool { return a.Inputs != nil }, Floats: func(a *Answer) *[]float32 { return &a.Inputs },
	},
	{
		Name: "change", Arrow: "change", Type: Float32, Part: Prefixes, Null: true, Means: "probability that the class changes until the end of the sequence, of an early prediction",
		Absent: "the sequence has ended, or the readout has no rule", Docs: "early.md",
		Known: func(a *Answer) bool { return a.Change != 0 }, Float: func(a *Answer) *float32 { return &a.Change },
	},
	{
		Name: "value", Arrow: "value", Type: Float32, Part: Regressor, Null: true, Means: "the number that a regression predicts", Unit: "the unit of the training's numbers",
		Absent: "the model predicts classes", Docs: "regression.md",
		Known: numeric, Float: func(a *Answer) *float32 { return &a.Number.Value },
	},
	{
		Name: "low", Arrow: "low", Type: Float32, Part: Regressor, Null: true, Means: "lower end of the interval of the true number, at the model's coverage", Unit: "the unit of the training's numbers",
		Absent: "the model predicts classes", Docs: "regression.md",
		Known: numeric, Float: func(a *Answer) *float32 { return &a.Number.Low },
	},
	{
		Name: "high", Arrow: "high", Type: Float32, Part: Regressor, Null: true, Means: "upper end of that interval", Unit: "the unit of the training's numbers",
		Absent: "the model predicts classes", Docs: "regression.md",
		Known: numeric, Float: func(a *Answer) *float32 { return &a.Number.High },
	},
	{Name: "integrity", Type: Word, Means: "trust in the prediction, in one word: the worst of the flags"},
	{Name: "flags", Arrow: "flags", Type: Flags, Means: "anomalies of the samples: bits in messages, names in JSON and CSV; 0: none"},
	{Name: "readout", Arrow: "readout", Type: Text, Means: "fingerprint of the readout that answered", Absent: "no readout of the job was promoted", Docs: "models.md"},
}

func always(*Answer) bool    { return true }
func judged(a *Answer) bool  { return a.NoveltyP != 0 } // a p-value is never 0
func numeric(a *Answer) bool { return a.Number.Known }

// Extras are the columns that only some readouts give.
var Extras = func() (all []*Column) {
	for i := range Columns {
		if Columns[i].Part != Always {
			all = append(all, &Columns[i])
		}
	}
	return all
}()

// Lookup returns the column of a name, in messages or elsewhere. Lookup panics if there is
// none.
func Lookup(name string) *Column {
	for i := range Columns {
		if c := &Columns[i]; c.Name == name || c.Arrow == name {
			return c
		}
	}
	panic("outcome: no column " + name)
}
