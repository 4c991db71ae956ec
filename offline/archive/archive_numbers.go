package archive

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/schema"

	"github.com/eusn-stream/eusn-stream/internal/names"
)

// Our archives hold float32 samples and integers of one size. Other tools write the types of their tables, often
// float64 and int64; samples are rounded to the nearest float32, like in the live stage.

// floats is flat for samples.
func floats(g *rowGroup, name string) ([]float32, error) {
	kind, unsigned, err := g.number(name)
	switch {
	case err != nil:
		return nil, err
	case kind == parquet.Types.Double:
		return flat(g, name, toFloat[float64], nil)
	case kind == parquet.Types.Int32 && unsigned:
		return flat(g, name, func(v int32) float32 { return float32(uint32(v)) }, nil)
	case kind == parquet.Types.Int32:
		return flat(g, name, toFloat[int32], nil)
	case kind == parquet.Types.Int64 && unsigned:
		return flat(g, name, func(v int64) float32 { return float32(uint64(v)) }, nil)
	case kind == parquet.Types.Int64:
		return flat(g, name, toFloat[int64], nil)
	}
	return flat(g, name, same[float32], nil)
}

// floatLists is lists for samples.
func floatLists(g *rowGroup, name string) (values []float32, lengths []int32, err error) {
	kind, unsigned, err := g.number(name)
	switch {
	case err != nil:
		return nil, nil, err
	case kind == parquet.Types.Double:
		return castLists(g, name, toFloat[float64])
	case kind == parquet.Types.Int32 && unsigned:
		return castLists(g, name, func(v int32) float32 { return float32(uint32(v)) })
	case kind == parquet.Types.Int32:
		return castLists(g, name, toFloat[int32])
	case kind == parquet.Types.Int64 && unsigned:
		return castLists(g, name, func(v int64) float32 { return float32(uint64(v)) })
	case kind == parquet.Types.Int64:
		return castLists(g, name, toFloat[int64])
	}
	return lists[float32](g, name)
}

func castLists[V any](g *rowGroup, name string, convert func(V) float32) ([]float32, []int32, error) {
	from, lengths, err := lists[V](g, name)
	if err != nil {
		return nil, nil, err
	}
	values := make([]float32, len(from))
	for i, v := range from {
		values[i] = convert(v)
	}
	return values, lengths, nil
}

func toFloat[V int32 | int64 | float64](v V) float32 { return float32(v) }

// integers is flat for whole numbers; numbers outside int64 become -1, which is no valid count.
func integers(g *rowGroup, name string) ([]int64, error) {
	kind, unsigned, err := g.number(name)
	switch {
	case err != nil:
		return nil, err
	case kind == parquet.Types.Int32 && unsigned:
		return flat(g, name, func(v int32) int64 { return int64(uint32(v)) }, nil)
	case kind == parquet.Types.Int32:
		return flat(g, name, func(v int32) int64 { return int64(v) }, nil)
	}
	return flat(g, name, func(v int64) int64 {
		if unsigned && v < 0 {
			return -1
		}
		return v
	}, nil)
}

// number returns the stored type of a column's values. Decimals, dates and times are also stored as integers, with
// another meaning.
func (g *rowGroup) number(name string) (kind parquet.Type, unsigned bool, err error) {
	descr, _, err := g.in.leaf(name)
	if err != nil {
		return 0, false, err
	}
	switch t := descr.LogicalType().(type) {
	case schema.DecimalLogicalType, *schema.DecimalLogicalType, schema.DateLogicalType, *schema.DateLogicalType,
		*schema.TimestampLogicalType, *schema.TimeLogicalType:
		return 0, false, fmt.Errorf("column %q: %s, want numbers: cast it to FLOAT, or to BIGINT where it counts, when the file is written", name, descr.LogicalType())
	case *schema.IntLogicalType:
		unsigned = !t.IsSigned()
	}
	return descr.PhysicalType(), unsigned, nil
}

// hasTarget requires a column of numbers that is no channel, unless its name is empty.
func (p *parquetFile) hasTarget(path, column string, channels []string) error {
	if column == "" {
		return nil
	}
	if slices.Contains(channels, column) {
		return fmt.Errorf("offline: %s: column %q is a channel, which the model would see: want a column that is not among the channels (metadata key %s)", path, column, keyChannels)
	}
	return cmp.Or(p.hasColumn(path, column, "numbers to learn"), names.Check("column", column))
}

// numberColumn reads a column of numbers. Null is not a number.
func numberColumn(g *rowGroup, name string) (values []float64, err error) {
	kind, unsigned, err := g.number(name)
	if err != nil {
		return nil, err
	}
	switch {
	case kind == parquet.Types.Float:
		values, err = flat(g, name, func(v float32) float64 { return float64(v) }, math.NaN)
	case kind == parquet.Types.Int32 && unsigned:
		values, err = flat(g, name, func(v int32) float64 { return float64(uint32(v)) }, math.NaN)
	case kind == parquet.Types.Int32:
		values, err = flat(g, name, func(v int32) float64 { return float64(v) }, math.NaN)
	case kind == parquet.Types.Int64 && unsigned:
		values, err = flat(g, name, func(v int64) float64 { return float64(uint64(v)) }, math.NaN)
	case kind == parquet.Types.Int64:
		values, err = flat(g, name, func(v int64) float64 { return float64(v) }, math.NaN)
	default:
		values, err = flat(g, name, same[float64], math.NaN)
	}
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		if math.Abs(v) > largestNumber {
			return nil, fmt.Errorf("column %q, row %d of the row group: %v, want a magnitude of at most %g", name, i, v, float64(largestNumber))
		}
	}
	return values, nil
}

// largestNumber is the largest number for package fit.
const largestNumber = 1e30
