package discover

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/gateway/values"
)

// form is the form of a message.
type form int

const (
	unknown form = iota // the reason is a text
	object              // JSON: one or several objects
	single              // a single value
)

// content is a decoded message.
type content struct {
	form   form
	why    string             // of unknown
	rows   int                // samples
	fields map[string]field   // by path; of the first row
	times  map[string]float64 // fields that may be a time, in ns
	texts  map[string]string  // fields that may name a machine, by path
}

// field is a place with a number.
type field struct {
	name string // of the channel
	rows int    // 0: one value for a row; else the length of a list of values
}

const (
	mostDepth  = 8
	mostFields = 512
	fewestList = 9 // a list of fewer numbers is a vector, whose elements are channels, if it is the only list
)

// parseMessage finds the values of a message.
func parseMessage(payload []byte) content {
	if _, ok := values.Parse(payload); ok {
		return content{form: single, rows: 1}
	}
	format, words := formats.Looks(payload)
	if format != formats.JSON {
		if words == "" {
			words = "of unknown content"
		}
		return content{why: words}
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	var rows []map[string]any
	for {
		var v any
		err := d.Decode(&v)
		if err == io.EOF {
			break
		}
		list, isList := v.([]any)
		if !isList {
			list = []any{v}
		}
		for _, e := range list {
			row, ok := e.(map[string]any)
			if !ok || err != nil {
				return content{why: "JSON, but no object with numbers"}
			}
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return content{why: "JSON without an object"}
	}
	c := content{form: object, rows: len(rows), fields: map[string]field{}, times: map[string]float64{}, texts: map[string]string{}}
	c.addFields(rows[0], "$", "", 0)
	c.settleLists(rows[0])
	if len(c.fields) == 0 {
		return content{why: "JSON without numbers"}
	}
	return c
}

var (
	plainName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)
	timeName    = regexp.MustCompile(`(?i)^(ts|t|time|timestamp|time_?stamp|datetime|date|utc)$`)
	machineName = regexp.MustCompile(`(?i)^(stream|stream_?id|machine|machine_?id|device|device_?id|asset|asset_?id|equipment|equipment_?id|unit_?id)$`)
)

// addFields adds the fields of an object.
func (c *content) addFields(object map[string]any, path, name string, depth int) {
	for _, key := range sortedKeys(object) {
		if len(c.fields) >= mostFields || depth > mostDepth {
			return
		}
		at := path + "." + key
		if !plainName.MatchString(key) {
			at = path + "[" + strconv.Quote(key) + "]"
		}
		full := key
		if name != "" {
			full = name + "." + key
		}
		c.addValue(object[key], key, at, full, depth)
	}
}

func (c *content) addValue(v any, key, at, full string, depth int) {
	switch v := v.(type) {
	case map[string]any:
		c.addFields(v, at, full, depth+1)
	case bool, nil:
		c.fields[at] = field{name: full}
	case json.Number:
		if timeName.MatchString(key) {
			if x, err := v.Float64(); err == nil && x >= 1e9 {
				c.times[at] = x
			}
			return // a time since the start is no channel either
		}
		c.fields[at] = field{name: full}
	case string:
		if at1, err := time.Parse(time.RFC3339Nano, v); err == nil {
			c.times[at] = float64(at1.UnixNano())
			return
		}
		if machineName.MatchString(key) {
			c.texts[at] = v
			return
		}
		if _, err := strconv.ParseFloat(v, 64); err == nil && !timeName.MatchString(key) {
			c.fields[at] = field{name: full}
		}
	case []any:
		if len(v) > 0 && !slices.ContainsFunc(v, func(e any) bool { _, is := e.(json.Number); return !is }) {
			c.fields[at] = field{name: full, rows: len(v)}
		}
	}
}

// settleLists decides whether lists are samples or vectors.
func (c *content) settleLists(row map[string]any) {
	lists, length, equal := 0, 0, true
	for _, f := range c.fields {
		if f.rows > 0 {
			lists++
			equal = equal && (length == 0 || length == f.rows)
			length = f.rows
		}
	}
	if lists == 0 {
		return
	}
	if equal && c.rows == 1 && (lists > 1 && lists == len(c.fields) || length >= fewestList) {
		c.rows = length
		maps.DeleteFunc(c.fields, func(_ string, f field) bool { return f.rows == 0 }) // one value for all samples: no channel
		return
	}
	for at, f := range maps.Clone(c.fields) {
		if f.rows == 0 {
			continue
		}
		delete(c.fields, at)
		for i := range f.rows {
			c.fields[fmt.Sprintf("%s[%d]", at, i)] = field{name: fmt.Sprintf("%s.%d", f.name, i)}
		}
	}
}

// timeUnitOf returns the unit of a numeric time by its magnitude: years 2001 to 2286.
func timeUnitOf(x float64) string {
	switch {
	case x < 1e10:
		return "s"
	case x < 1e13:
		return "ms"
	case x < 1e16:
		return "us"
	}
	return "ns"
}

// channelName returns a name for a channel that a recording may have.
func channelName(name string) string {
	switch name {
	case "stream", "seq", "time", "end", "label":
		return name + "_value"
	}
	return strings.TrimSpace(name)
}
