package archive

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// recordedColumns are the additional columns of a recording of a job's input (eusn-stream record).
var recordedColumns = []string{"eusn_key", "eusn_input", "eusn_seq", "eusn_row", "eusn_flags"}

// Metadata keys of a recording of a job's input, one of several files.
const (
	keyRecording = "eusn.recording" // identity of the recording, the same in all files
	keyEnds      = "eusn.ends"      // numbers of samples that end a sequence, in addition to the column end
	keySilent    = "eusn.silent"    // numbers of samples before silence that ended a sequence
)

// Origin is the origin of recorded samples: no element, or one each.
type Origin struct {
	Key     []string // the text of the input subject's wildcards
	Input   []int64  // number of the message in the job's log
	Message []int64  // Eusn-Seq of the message, 0 without
	Row     []int64  // of the sample in the message
	Flags   []uint32 // outcome.Flag: events since the stream's previous sample
}

func (o *Origin) reset() {
	*o = Origin{o.Key[:0], o.Input[:0], o.Message[:0], o.Row[:0], o.Flags[:0]}
}

// checkLength wants n elements.
func (o *Origin) checkLength(n int) error {
	for _, have := range []int{len(o.Key), len(o.Input), len(o.Message), len(o.Row), len(o.Flags)} {
		if have != n {
			return fmt.Errorf("a chunk of %d samples has %d elements of where they come from", n, have)
		}
	}
	return nil
}

// recordedFields are the fields of recordedColumns.
func recordedFields() []arrow.Field {
	types := []arrow.DataType{arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint32}
	fields := make([]arrow.Field, len(types))
	for i, t := range types {
		fields[i] = arrow.Field{Name: recordedColumns[i], Type: t}
	}
	return fields
}

// append adds sample i to the fields of b from at on.
func (o *Origin) append(b *array.RecordBuilder, at, i int) {
	b.Field(at).(*array.StringBuilder).Append(o.Key[i])
	b.Field(at + 1).(*array.Int64Builder).Append(o.Input[i])
	b.Field(at + 2).(*array.Int64Builder).Append(o.Message[i])
	b.Field(at + 3).(*array.Int64Builder).Append(o.Row[i])
	b.Field(at + 4).(*array.Uint32Builder).Append(o.Flags[i])
}

// readGroup reads the columns of a row group.
func (o *Origin) readGroup(g *rowGroup) (err error) {
	if o.Key, err = flat(g, recordedColumns[0], interner(), nil); err != nil {
		return err
	}
	for i, to := range []*[]int64{&o.Input, &o.Message, &o.Row} {
		if *to, err = integers(g, recordedColumns[1+i]); err != nil {
			return err
		}
	}
	flags, err := integers(g, recordedColumns[4])
	if err != nil {
		return err
	}
	o.Flags = o.Flags[:0]
	for _, f := range flags {
		o.Flags = append(o.Flags, uint32(f))
	}
	return nil
}

// numbered are numbers of samples, ascending.
type numbered []int64

func (n numbered) has(number int64) bool {
	_, found := slices.BinarySearch(n, number)
	return found
}

// parseNumbers reads a list of the metadata; empty text is an empty list.
func parseNumbers(key, text string) (numbered, error) {
	if text == "" {
		return nil, nil
	}
	var list numbered
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("metadata key %s: %w", key, err)
	}
	slices.Sort(list)
	return list, nil
}
