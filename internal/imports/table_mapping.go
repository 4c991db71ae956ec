package imports

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eusn-stream/eusn-stream/internal/names"
)

// mostMapping bounds the size of a mapping file.
const mostMapping = 8 << 20

// ReadMapping reads a mapping file.
func ReadMapping(path string) (t Table, err error) {
	f, err := os.Open(path)
	if err != nil {
		return t, fmt.Errorf("offline: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostMapping+1))
	if err == nil && len(text) > mostMapping {
		err = fmt.Errorf("larger than %d MiB", mostMapping>>20)
	}
	if err == nil {
		t, err = parseMapping(text)
	}
	if err != nil {
		return t, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func parseMapping(text []byte) (t Table, err error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&t); err != nil {
		return t, fmt.Errorf("want the fields of import --write-mapping: %w", err)
	}
	for i, name := range t.Names {
		if err := names.Check("column", name); err != nil {
			return t, fmt.Errorf("names, number %d: %w", i+1, err)
		}
	}
	return t, t.Check()
}

// Mapping returns the text of a mapping file with the found use of each column.
func (s *TableSummary) Mapping() []byte {
	t := s.table
	for _, kind := range singleKinds {
		if t.column(kind) != "" && t.hasColumn(s.Columns, kind) {
			*t.field(kind) = "" // the list of columns has the kind
		}
	}
	t.Channels, t.Ignore, t.Columns = "", "", nil
	if s.Delimiter != "" {
		t.Delimiter, t.Decimal, t.Header = s.Delimiter, s.Decimal, map[bool]string{true: "yes", false: "no"}[s.Header]
	}
	t.TimeUnit, t.Dates = s.TimeUnit, cmp.Or(s.Dates, t.Dates)
	comments := map[string]string{}
	for _, c := range s.Columns {
		t.Columns = append(t.Columns, MappedColumn{Name: c.Name, Kind: c.Kind, As: c.As})
		comments[c.Name] = strings.TrimSpace(strings.Join([]string{c.Profile.Grade, c.Unit, c.Profile.Why, c.Reason}, " "))
	}
	var node yaml.Node
	if err := node.Encode(&t); err != nil {
		panic("BUG: imports: a mapping cannot be YAML: " + err.Error())
	}
	node.HeadComment = "Use of the columns, read by --mapping. Kinds: " + strings.Join(columnKinds, ", ")
	if list := node.Content[len(node.Content)-1]; list.Kind == yaml.SequenceNode && len(t.Columns) > 0 {
		for i, item := range list.Content {
			item.Content[len(item.Content)-1].LineComment = comments[t.Columns[i].Name]
		}
	}
	text, err := yaml.Marshal(&node)
	if err != nil {
		panic("BUG: imports: a mapping cannot be YAML: " + err.Error())
	}
	return text
}

// hasColumn reports whether a column has a kind.
func (t *Table) hasColumn(columns []Column, kind string) bool {
	for _, c := range columns {
		if c.Kind == kind {
			return true
		}
	}
	return false
}
