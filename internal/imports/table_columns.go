package imports

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/names"
)

// Column is a column of a table, and its use.
type Column struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	As     string `json:"as,omitempty"`     // name of the channel, if another
	Unit   string `json:"unit,omitempty"`   // as the name suggests
	Reason string `json:"reason,omitempty"` // of the kind, if it was guessed

	Profile Profile `json:"profile,omitzero"` // of a channel
}

// outName returns the name of a channel in the archive.
func (c *Column) outName() string { return cmp.Or(c.As, c.Name) }

// cells are the types of a column's first fields.
type cells struct {
	numbers, whole, times, texts int
	broken                       int // text that begins like a number
}

func lookAt(rows [][][]byte, column int, d dialect) (c cells) {
	for _, row := range rows {
		if column >= len(row) {
			continue
		}
		field := trimField(row[column])
		if isMissing(field) {
			continue
		}
		if v, ok := parseNumber(field, d.decimal); ok {
			c.numbers++
			if v == float64(int64(v)) {
				c.whole++
			}
		} else if _, _, ok := parseTimeText(field, 0); ok {
			c.times++
		} else if '0' <= field[0] && field[0] <= '9' || field[0] == '-' || field[0] == '+' {
			c.broken++
		} else {
			c.texts++
		}
	}
	return c
}

// usualNames are names of columns of a kind, in lower case with _ for blanks.
var usualNames = map[string]string{
	kindTime:   " time timestamp time_stamp datetime date_time date ts zeit zeitstempel ",
	kindStream: " unit unit_id unit_nr unit_number device device_id machine machine_id asset asset_id engine engine_id run run_id experiment ",
	kindSeq:    " seq cycle cycles time_cycles time_in_cycles ",
	kindLabel:  " label class anomaly is_anomaly outlier fault failure ",
	kindTarget: " rul remaining remaining_life ",
	kindEnd:    " end ",
	kindSensor: " sensor tag tag_name signal channel variable parameter metric point measurement ",
	kindValue:  " value reading ",
}

// textLabels are names of labels if the column has text.
const textLabels = " state status condition mode "

// guessKind returns the kind of a column by its name and its first fields, with the reason.
func guessKind(name string, c cells, hasStream bool) (kind, reason string) {
	low := " " + strings.ReplaceAll(strings.ToLower(name), " ", "_") + " "
	switch {
	case name == "":
		return kindIgnored, "no name"
	case c.times > 0 && c.texts+c.numbers == 0:
		return kindTime, "times"
	case low == " changepoint ":
		return kindIgnored, "marks changes of the label"
	}
	for _, kind := range singleKinds {
		if c.fit(kind, low, hasStream) {
			return kind, "name"
		}
	}
	if c.texts > 0 && c.numbers == 0 || c.times > 0 {
		return kindIgnored, "text"
	}
	return kindChannel, ""
}

// fit reports whether a column of a kind has such fields and such a name.
func (c cells) fit(kind, name string, hasStream bool) bool {
	numbers := c.texts+c.times == 0
	if !strings.Contains(usualNames[kind], name) {
		return kind == kindLabel && strings.Contains(textLabels, name) && c.texts+c.broken > 0
	}
	switch kind {
	case kindEnd, kindLabel:
		return true
	case kindStream:
		return c.whole == c.numbers && c.times == 0
	case kindTime, kindTarget:
		return numbers && c.numbers+c.broken > 0
	case kindSeq:
		return numbers && c.whole == c.numbers && c.whole > 0 && (hasStream || name == " seq ")
	}
	return false
}

// contractKinds are the kinds of a CSV recording with a column stream, by their names.
var contractKinds = []string{kindStream, kindSeq, kindTime, kindEnd, kindLabel}

// defaultKinds sets the kinds of columns without options: by the names of a CSV recording
// if a column stream exists, else by usual names and the first fields.
func defaultKinds(columns []Column, types []cells) {
	contract := slices.ContainsFunc(columns, func(c Column) bool { return c.Name == kindStream })
	hasStream := slices.ContainsFunc(columns, func(c Column) bool {
		return strings.Contains(usualNames[kindStream], " "+strings.ToLower(c.Name)+" ")
	})
	taken := map[string]bool{}
	for i := range columns {
		c := &columns[i]
		if contract {
			if c.Kind = kindChannel; slices.Contains(contractKinds, c.Name) {
				c.Kind = c.Name
			}
			continue
		}
		c.Kind, c.Reason = guessKind(c.Name, types[i], hasStream)
		if slices.Contains(singleKinds, c.Kind) {
			if taken[c.Kind] {
				c.Kind, c.Reason = kindIgnored, "a second column like "+c.Kind
			} else {
				taken[c.Kind] = true
			}
		}
	}
	useLongForm(columns, types)
}

// useLongForm finds a column of sensors with text, next to a column called value.
func useLongForm(columns []Column, types []cells) {
	value := slices.IndexFunc(columns, func(c Column) bool { return strings.EqualFold(c.Name, "value") })
	if value < 0 || types[value].texts > 0 {
		return
	}
	for i := range columns {
		if types[i].texts > 0 && strings.Contains(usualNames[kindSensor], " "+strings.ToLower(columns[i].Name)+" ") {
			columns[i].Kind, columns[value].Kind = kindSensor, kindValue
			columns[i].Reason, columns[value].Reason = "name", "name"
			return
		}
	}
}

// resolveColumns finds the use of each column. With several files, one of them may lack the
// columns of optionalKinds.
func (t *Table) resolveColumns(header []string, rows [][][]byte, d dialect, several bool) ([]Column, error) {
	columns, types := make([]Column, len(header)), make([]cells, len(header))
	for i, name := range header {
		columns[i].Name, columns[i].Unit = name, guessUnit(name)
		types[i] = lookAt(rows, i, d)
	}
	if len(t.Columns) > 0 {
		if err := t.useMapping(columns, several); err != nil {
			return nil, err
		}
	} else {
		defaultKinds(columns, types)
	}
	if err := t.useOptions(columns, several); err != nil {
		return nil, err
	}
	if t.column(kindLabel) == "" && t.Label != "" {
		for i := range columns {
			if columns[i].Kind == kindLabel {
				columns[i].Kind, columns[i].Reason = kindIgnored, "the label comes from the name of the stream"
			}
		}
	}
	if err := t.choose(columns); err != nil {
		return nil, err
	}
	return columns, nil
}

// useOptions sets the kinds of the columns that the options name.
func (t *Table) useOptions(columns []Column, several bool) error {
	named := map[string]string{}
	for _, kind := range singleKinds {
		if other, twice := named[t.column(kind)]; twice && t.column(kind) != "" {
			return fmt.Errorf("column %q is to be the %s and the %s: a column has one kind", names.Cut(t.column(kind), 40), other, kind)
		}
		named[t.column(kind)] = kind
		elsewhere := t.Runs != "" && slices.Contains(runKinds, kind) || several && slices.Contains(optionalKinds, kind)
		if err := useOption(columns, kind, t.column(kind), elsewhere); err != nil {
			return err
		}
	}
	return nil
}

// optionalKinds are kinds of columns that only some of the files may have.
var optionalKinds = []string{kindLabel, kindEnd}

// useMapping sets the kinds of a mapping file.
func (t *Table) useMapping(columns []Column, several bool) error {
	mapped := map[string]MappedColumn{}
	for _, m := range t.Columns {
		if _, twice := mapped[m.Name]; twice {
			return fmt.Errorf("the mapping has column %q twice", names.Cut(m.Name, 40))
		}
		mapped[m.Name] = m
	}
	for i := range columns {
		c := &columns[i]
		m, ok := mapped[c.Name]
		if !ok {
			return fmt.Errorf("column %q is not in the mapping: add the column, with kind %s to leave it out", names.Cut(c.Name, 40), kindIgnored)
		}
		c.Kind, c.As = m.Kind, m.As
		delete(mapped, c.Name)
	}
	for _, m := range t.Columns {
		if _, missing := mapped[m.Name]; missing && m.Kind != kindIgnored && !(several && slices.Contains(optionalKinds, m.Kind)) {
			return fmt.Errorf("no column %q, which the mapping has", names.Cut(m.Name, 40))
		}
	}
	return nil
}

// useOption gives the column called name a kind; a previous column of this kind is ignored.
func useOption(columns []Column, kind, name string, elsewhere bool) error {
	if name == "" {
		return nil
	}
	at := slices.IndexFunc(columns, func(c Column) bool { return c.Name == name })
	if at < 0 && elsewhere {
		return nil
	}
	if at < 0 {
		return fmt.Errorf("no column %q, which is to be the %s", names.Cut(name, 40), kind)
	}
	for i := range columns {
		if i != at && columns[i].Kind == kind {
			columns[i].Kind, columns[i].Reason = kindIgnored, fmt.Sprintf("the %s is another column", kind)
		}
	}
	columns[at].Kind, columns[at].Reason = kind, ""
	return nil
}

// choose applies the patterns of channels and ignored columns, and checks the result.
func (t *Table) choose(columns []Column) error {
	keep, err := names.ParsePatterns(t.Channels)
	if err != nil {
		return fmt.Errorf("channels: %w", err)
	}
	drop, err := names.ParsePatterns(t.Ignore)
	if err != nil {
		return fmt.Errorf("ignore: %w", err)
	}
	for i := range columns {
		c := &columns[i]
		switch {
		case drop != nil && drop.Allow(c.Name):
			c.Kind, c.Reason = kindIgnored, "by a pattern"
		case keep != nil && c.Kind == kindIgnored && keep.Allow(c.Name) && c.Name != "":
			c.Kind, c.Reason = kindChannel, ""
		case keep != nil && c.Kind == kindChannel && !keep.Allow(c.Name):
			c.Kind, c.Reason = kindIgnored, "not among the channels"
		}
	}
	return checkColumns(columns)
}

// checkColumns checks the number of columns of each kind, and the names of channels.
func checkColumns(columns []Column) error {
	seen, used := map[string]string{}, []string{}
	for i := range columns {
		c := &columns[i]
		other, twice := seen[c.Kind]
		seen[c.Kind] = c.Name
		switch {
		case twice && slices.Contains(singleKinds, c.Kind):
			return fmt.Errorf("columns %q and %q are both of kind %s, want one", names.Cut(other, 40), names.Cut(c.Name, 40), c.Kind)
		case c.Kind == kindChannel && slices.Contains(contractKinds, c.outName()):
			return fmt.Errorf("channel %q has the name of another column of archives: use the column as %s, or name it with as in a mapping file", c.outName(), c.outName())
		case c.Kind == kindChannel:
			used = append(used, c.outName())
		}
	}
	if _, sensor := seen[kindSensor]; len(used) == 0 && !sensor {
		return fmt.Errorf("no channel column")
	}
	return names.CheckAll("channel", used)
}

// unitPattern matches a unit at the end of a name: pressure [bar], speed_rpm.
var unitPattern = regexp.MustCompile(`(?:[\[(]([^\[\]()]{1,12})[\])]|[_ ](degC|°C|degF|K|bar|mbar|Pa|kPa|MPa|psi|rpm|Hz|kHz|V|mV|kV|A|mA|W|kW|kWh|Nm|N|kN|mm|cm|m|mm/s|m/s|g|kg|l/min|m3/h|percent|pct|%))$`)

// guessUnit returns the unit in the name of a column.
func guessUnit(name string) string {
	m := unitPattern.FindStringSubmatch(name)
	if m == nil {
		return ""
	}
	return cmp.Or(m[1], m[2])
}
