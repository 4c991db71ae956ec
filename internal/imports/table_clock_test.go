package imports

import (
	"strings"
	"testing"
	"time"
)

// TestClockDates: the order of day and month is an option or follows from a number above 12, and is
// never assumed; a time that clocks skip or repeat is refused.
func TestClockDates(t *testing.T) {
	for _, c := range []struct{ dates, zone, fields, want string }{
		{"", "", "03/04/2026 10:00", "is 03 the day or the month? Specify the order (import --dates day-first or month-first)"},
		{DayFirst, "", "03/04/2026 10:00", "2026-04-03T10:00:00Z"},
		{MonthFirst, "", "3/4/2026 1:05:06.25 pm", "2026-03-04T13:05:06.25Z"},
		{MonthFirst, "", "03/04/2026 12:30 AM", "2026-03-04T00:30:00Z"},
		{"", "", "31/01/2026|03/04/2026", "2026-04-03T00:00:00Z"},
		{"", "", "01/31/2026 10:00:00|03/04/2026 10:00:00", "2026-03-04T10:00:00Z"},
		{"", "", "31/01/2026|01/31/2026", `"01/31/2026" is no date with the day first`},
		{"", "", "31/13/2026", "day or the month"},
		{DayFirst, "", "31/02/2026", "is no date"},
		{DayFirst, "", "03/04/26", "want RFC 3339"},
		{"", "+02:00", "2026-06-01 12:00:00", "2026-06-01T10:00:00Z"},
		{"", "+02:00", "2026-06-01T12:00:00Z", "2026-06-01T12:00:00Z"},
		{DayFirst, "-05:30", "03/04/2026 10:00", "2026-04-03T15:30:00Z"},
		{"", "Europe/Berlin", "2026-06-01 12:00", "2026-06-01T10:00:00Z"},
		{"", "Europe/Berlin", "2026-10-25 01:59:59", "2026-10-24T23:59:59Z"},
		{"", "Europe/Berlin", "2026-10-25 03:00:00", "2026-10-25T02:00:00Z"},
		{"", "Europe/Berlin", "2026-10-25 02:30:00", "exists 2 times in the zone Europe/Berlin"},
		{"", "Europe/Berlin", "2026-03-29 02:30:00", "exists 0 times in the zone Europe/Berlin"},
		{"", "Nowhere/Atall", "", `zone "Nowhere/Atall": want an offset such as +02:00`},
		{"", "Local", "", `zone "Local"`},
		{"odd", "", "", `dates "odd": want one of day-first, month-first`},
	} {
		got := ""
		table := Table{Dates: c.dates, Zone: c.zone}
		if err := table.Check(); err != nil {
			got = err.Error()
		} else {
			k := newTableSet(t.Context(), table, nil, nil).clock
			for field := range strings.SplitSeq(c.fields, "|") {
				if ns, err := k.parseTime([]byte(field), '.'); err != nil {
					got = err.Error()
				} else {
					got = time.Unix(0, ns).UTC().Format(time.RFC3339Nano)
				}
			}
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
