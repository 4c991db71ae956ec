package archive

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/schema"

	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/timeunit"
)

// timeColumn is the column time of a recording archive.
type timeColumn struct {
	ticks   int64 // nanoseconds in its unit
	old     bool  // INT96: days and nanoseconds
	checked bool  // the unit is known to be meant
}

// timestampTicks are the nanoseconds in the units of timestamps; other tools round to
// microseconds.
var timestampTicks = map[schema.TimeUnitType]int64{schema.TimeUnitNanos: 1, schema.TimeUnitMicros: 1e3, schema.TimeUnitMillis: 1e6}

// newTimeColumn finds the unit of a column: the metadata's, or the column's own.
func newTimeColumn(in *parquetFile, unit string, checked bool) (t timeColumn, err error) {
	t.ticks, t.checked = timeunit.Ticks(unit), checked || unit != ""
	if unit != "" && t.ticks == 0 {
		return t, fmt.Errorf("metadata key %s is %q, want one of %q", KeyTimeUnit, names.Cut(unit, 20), timeunit.Names)
	}
	column, _, err := in.leaf("time")
	if err != nil {
		return t, err
	}
	kind, logical := column.PhysicalType(), column.LogicalType()
	own, isTimestamp := logical.(*schema.TimestampLogicalType)
	_, isInteger := logical.(*schema.IntLogicalType)
	isNumber := kind == parquet.Types.Int64 && (isInteger || !logical.IsValid() || logical.IsNone())
	switch {
	case kind == parquet.Types.Int96:
		t.old = true
	case t.ticks != 0 && (isTimestamp || isNumber):
	case isTimestamp:
		if t.ticks = timestampTicks[own.TimeUnit()]; t.ticks == 0 {
			return t, fmt.Errorf("column %q: unknown unit of time", "time")
		}
	case isNumber:
		return t, fmt.Errorf("column %q: numbers without a unit, want a timestamp: cast the column when the file is written, or set the metadata key %s to one of %q", "time", KeyTimeUnit, timeunit.Names)
	default:
		return t, fmt.Errorf("column %q: stored as %s (%s), want a timestamp", "time", kind, logical)
	}
	return t, nil
}

// readTimes reads the next rows.
func (t *timeColumn) readTimes(g *rowGroup) (times []int64, err error) {
	none := func() int64 { return NoTime }
	if t.old {
		late := false
		times, err = flat(g, "time", func(v parquet.Int96) int64 {
			ns, ok := int96(v)
			late = late || !ok
			return ns
		}, none)
		if err == nil && late {
			err = fmt.Errorf("column %q: a time does not fit into 64-bit nanoseconds", "time")
		}
		return times, err
	}
	if times, err = flat(g, "time", same[int64], none); err != nil {
		return nil, err
	}
	for i, n := range times {
		if n == NoTime {
			continue
		}
		if !t.checked {
			t.checked = true
			if err := timeunit.CheckTime(n, t.ticks, `column "time": the first is`, fmt.Sprintf(": cast the column when the file is written, or set the metadata key %s to one of %q", KeyTimeUnit, timeunit.Names)); err != nil {
				return nil, err
			}
		}
		ns, ok := timeunit.Nanoseconds(n, t.ticks)
		if !ok {
			return nil, fmt.Errorf("row %d: time %d does not fit into 64-bit nanoseconds", i, n)
		}
		times[i] = ns
	}
	return times, nil
}

// int96 makes nanoseconds since 1970 of nanoseconds of a day and a Julian day; false
// beyond 64 bits.
func int96(v parquet.Int96) (ns int64, ok bool) {
	const epoch, day = 2440588, 24 * int64(time.Hour)
	within := int64(binary.LittleEndian.Uint64(v[:8]))
	days := int64(binary.LittleEndian.Uint32(v[8:])) - epoch
	if within <= -day || within > day || days < math.MinInt64/day+1 || days > math.MaxInt64/day-1 {
		return 0, false
	}
	return days*day + within, true
}
