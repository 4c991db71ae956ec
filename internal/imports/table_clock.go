package imports

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/timeunit"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// parseNumber parses a number with a decimal point or comma.
func parseNumber(field []byte, decimal byte) (float64, bool) {
	if decimal == ',' && bytes.IndexByte(field, ',') >= 0 {
		if bytes.IndexByte(field, '.') >= 0 {
			return 0, false
		}
		field = bytes.Replace(field, []byte{','}, []byte{'.'}, 1)
	}
	if len(field) == 1 && field[0] == '?' {
		return nan, true
	}
	v, err := strconv.ParseFloat(string(field), 64)
	if err != nil || v-v != 0 && v == v || bytes.ContainsAny(field, "_xX") {
		return 0, false
	}
	return v, true
}

// timeLayouts are the forms of times with text. A form without an offset is UTC.
var timeLayouts = []string{
	time.RFC3339Nano,
	"2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04:05.999999999",
	"2006-01-02T15:04",
	"2006-01-02 15:04",
	"2006/01/02 15:04:05.999999999",
	"2006/01/02 15:04",
	"02.01.2006 15:04:05.999999999",
	"02.01.2006 15:04",
	"2006-01-02",
	"2006/01/02",
	"02.01.2006",
}

// offsetLayouts is the number of timeLayouts with an offset.
const offsetLayouts = 2

// parseTimeText parses a time with text. The layout with number first is tried first; the
// result has the number of the layout. A date such as 31/01/2026 is recognized, but not parsed:
// see parseSlashTime.
func parseTimeText(field []byte, first int) (t time.Time, layout int, ok bool) {
	if isSlashDate(field) {
		return t, first, true
	}
	if len(field) < len("2006-01-02") || len(field) > 64 || !('0' <= field[0] && field[0] <= '9') {
		return t, first, false
	}
	text := string(field)
	if t, err := time.Parse(timeLayouts[first], text); err == nil {
		return t, first, true
	}
	for i, form := range timeLayouts {
		if t, err := time.Parse(form, text); err == nil {
			return t, i, true
		}
	}
	return t, first, false
}

// clock parses the times of a recording.
type clock struct {
	unit    string         // of numbers; "": ns, because the first number suggests no unit
	given   bool           // the unit is an option
	known   bool           // the unit is given or found
	layout  int            // of the latest time with text
	text    bool           // times with text were found
	local   bool           // a time had no offset, and is taken as UTC
	numbers bool           // times that are numbers were found
	dates   string         // order of dates such as 31/01/2026: DayFirst or MonthFirst; "": not known yet
	zone    *time.Location // of times without an offset; nil: UTC
}

// Values of Table.Dates.
const (
	DayFirst   = "day-first"
	MonthFirst = "month-first"
)

// isSlashDate reports whether a field begins with a date such as 31/01/2026.
func isSlashDate(field []byte) bool {
	first, rest, _ := bytes.Cut(field, []byte{'/'})
	second, rest, ok := bytes.Cut(rest, []byte{'/'})
	isNumber := func(b []byte) bool {
		v, err := strconv.ParseUint(string(b), 10, 8)
		return err == nil && v > 0 && v <= 31
	}
	return ok && len(field) <= 64 && isNumber(first) && isNumber(second) && len(rest) >= 4 && bytes.Trim(rest[:4], "0123456789") == nil
}

// slashClocks are the forms of the year and the time after day and month.
var slashClocks = []string{"2006 15:04:05", "2006 15:04", "2006 3:04:05 PM", "2006 3:04 PM", "2006"}

// parseSlashTime parses a time such as 31/01/2026 12:00 or 1/31/2026 1:00 PM. The order of day and
// month is an option, or follows from a number above 12; it is never assumed.
func (k *clock) parseSlashTime(field []byte) (t time.Time, err error) {
	text := strings.ToUpper(string(field))
	first, rest, _ := strings.Cut(text, "/")
	second, _, _ := strings.Cut(rest, "/")
	if k.dates == "" {
		switch a, b := parseSmall(first), parseSmall(second); {
		case a > 12 && b <= 12:
			k.dates = DayFirst
		case b > 12 && a <= 12:
			k.dates = MonthFirst
		default:
			return t, fmt.Errorf("time: %q: is %s the day or the month? Specify the order (import --dates %s or %s)", clip(field), first, DayFirst, MonthFirst)
		}
	}
	date := map[string]string{DayFirst: "2/1/", MonthFirst: "1/2/"}[k.dates]
	for _, form := range slashClocks {
		if t, err = time.Parse(date+form, text); err == nil {
			return t, nil
		}
	}
	return t, fmt.Errorf("time: %q is no date with the %s (import --dates %s or %s)", clip(field), strings.Replace(k.dates, "-", " ", 1), DayFirst, MonthFirst)
}

// parseSmall parses a number of isSlashDate.
func parseSmall(text string) int {
	v, _ := strconv.Atoi(text)
	return v
}

// inZone returns the time of a clock on the wall of the zone. Changes of such clocks skip an hour and
// repeat an hour: times of these hours are refused.
func (k *clock) inZone(wall time.Time) (time.Time, error) {
	if k.zone == nil {
		return wall, nil
	}
	var found []time.Time
	for _, near := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		_, offset := wall.Add(near).In(k.zone).Zone()
		t := wall.Add(-time.Duration(offset) * time.Second)
		_, own := t.In(k.zone).Zone()
		if own == offset && !slices.ContainsFunc(found, t.Equal) {
			found = append(found, t)
		}
	}
	if len(found) != 1 {
		return wall, fmt.Errorf("time: %s exists %d times in the zone %s, because clocks change: export the times with an offset, or in UTC", wall.Format(time.DateTime), len(found), k.zone)
	}
	return found[0], nil
}

// parseZone returns the zone of a name such as Europe/Berlin, or of an offset such as +02:00.
func parseZone(name string) (*time.Location, error) {
	if t, err := time.Parse("-07:00", name); err == nil {
		_, offset := t.Zone()
		return time.FixedZone(name, offset), nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("zone %q: want an offset such as +02:00, or a name such as Europe/Berlin that this machine knows", name)
	}
	return zone, nil
}

// parseTime parses a time in nanoseconds.
func (k *clock) parseTime(field []byte, decimal byte) (int64, error) {
	if len(field) == 0 {
		return archive.NoTime, nil
	}
	if whole, err := strconv.ParseInt(string(field), 10, 64); err == nil {
		k.findUnit(whole, "")
		ns, ok := timeunit.Nanoseconds(whole, k.ticks())
		if !ok {
			return 0, fmt.Errorf("time: %d is out of the range of 64-bit nanoseconds (1678 to 2262); specify another unit (import --time-unit)", whole)
		}
		return ns, nil
	}
	if v, ok := parseNumber(field, decimal); ok && v == v {
		if !(math.Abs(v) < math.MaxInt64) {
			return 0, fmt.Errorf("time: %q is out of range", clip(field))
		}
		k.findUnit(int64(v), "s")
		whole, part := math.Modf(v)
		ns, ok := timeunit.Nanoseconds(int64(whole), k.ticks())
		if ok {
			ns, ok = addPart(ns, exactPart(field, decimal, part), k.ticks())
		}
		if !ok {
			return 0, fmt.Errorf("time: %q is out of the range of 64-bit nanoseconds (1678 to 2262); specify another unit (import --time-unit)", clip(field))
		}
		return ns, nil
	}
	t, err := k.parseText(field)
	if err != nil {
		return 0, err
	}
	if ns := t.UnixNano(); time.Unix(0, ns).Equal(t) && ns != archive.NoTime {
		return ns, nil
	}
	return 0, fmt.Errorf("time: %q is out of the range of 64-bit nanoseconds (1678 to 2262)", clip(field))
}

// parseText parses a time with text.
func (k *clock) parseText(field []byte) (t time.Time, err error) {
	k.text = true
	if isSlashDate(field) {
		if t, err = k.parseSlashTime(field); err != nil {
			return t, err
		}
		k.local = true
		return k.inZone(t)
	}
	t, layout, ok := parseTimeText(field, k.layout)
	if !ok {
		return t, fmt.Errorf("time: want RFC 3339 (2006-01-02T15:04:05.999Z), another form with year, month and day, or a number since 1970, got %q", clip(field))
	}
	k.layout = layout
	if layout < offsetLayouts {
		return t, nil
	}
	k.local = true
	return k.inZone(t)
}

// exactPart returns the part of a number after its point: with all digits if the number
// has no exponent, because a float64 has few digits left after those of a time since 1970.
func exactPart(field []byte, decimal byte, part float64) float64 {
	at := bytes.IndexByte(field, decimal)
	if at < 0 || bytes.ContainsAny(field, "eE") {
		return part
	}
	exact, err := strconv.ParseFloat("0."+string(field[at+1:]), 64)
	if err != nil {
		return part
	}
	if field[0] == '-' {
		return -exact
	}
	return exact
}

// addPart adds a part of a tick to a time.
func addPart(ns int64, part float64, ticks int64) (int64, bool) {
	more := int64(math.Round(part * float64(ticks)))
	sum := ns + more
	return sum, (more >= 0) == (sum >= ns) && sum != archive.NoTime
}

// findUnit finds the unit of numbers by the first number; unit is for numbers that suggest
// none.
func (k *clock) findUnit(n int64, unit string) {
	k.numbers = true
	if k.known {
		return
	}
	k.known = true
	if k.unit = timeunit.Guess(n); k.unit == "" {
		k.unit = unit
	}
}

// ticks returns the nanoseconds in the unit of numbers.
func (k *clock) ticks() int64 {
	return max(1, timeunit.Ticks(k.unit))
}
