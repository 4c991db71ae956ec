package formats

import (
	"bytes"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/eusn-stream/eusn-stream/codec"
)

// jsonDecoder reads JSON. The sources are a tree of names and positions, and a message is
// read once, from its beginning to its end; values without a source are only checked for
// syntax.
type jsonDecoder struct {
	table
	message, record *node // message: nil without input.rows
	plain           bool  // all channels have their default sources: rows may be arrays
	tokens          *jsontext.Decoder
	buf             bytes.Buffer
	found           []bool // channels of the current record
	text            []byte // scratch: an unquoted string
	payload         []byte // of the current message
}

// node is a place in a message.
type node struct {
	names  map[string]*node
	items  map[int]*node
	target int // the value's meaning; none: a node on the way to others
}

// Targets besides the channels, and none.
const (
	none = -1 - iota
	rowsTarget
	timeTarget
	streamTarget
	endTarget
)

func newJSON(l *layout) (*jsonDecoder, error) {
	d := &jsonDecoder{table: newTable(l, JSON), record: newNode(), plain: len(l.Channels) == 0, found: make([]bool, len(l.channels))}
	d.tokens = jsontext.NewDecoder(&d.buf)
	if l.Rows != "" {
		d.message = newNode()
		if err := d.message.addTarget(l.rows.steps, rowsTarget); err != nil {
			return nil, fmt.Errorf("formats: input.rows: %w", err)
		}
	}
	for c, s := range l.channels {
		if s.message && l.Rows != "" {
			return nil, fmt.Errorf("formats: input.channels of %q is %q, in the message, but channels are in its rows (input.rows: %s): begin it with @", l.schema.Channels[c], s.text, l.Rows)
		}
		if err := d.record.addTarget(s.steps, c); err != nil {
			return nil, fmt.Errorf("formats: input.channels of %q: %w", l.schema.Channels[c], err)
		}
	}
	for _, m := range []struct {
		key    string
		from   source
		target int
	}{{"time", l.time, timeTarget}, {"stream", l.stream, streamTarget}, {"end", l.end, endTarget}} {
		root := d.record
		if l.Rows != "" && m.from.message {
			root = d.message
		}
		if err := root.addTarget(m.from.steps, m.target); err != nil {
			return nil, fmt.Errorf("formats: input.%s: %w", m.key, err)
		}
	}
	return d, nil
}

func newNode() *node { return &node{target: none} }

// addTarget sets the meaning of the value at these steps. No value may have two meanings,
// and no value with a meaning may be in another.
func (n *node) addTarget(steps []step, target int) error {
	all := steps
	for ; len(steps) > 0; steps = steps[1:] {
		if n.target != none {
			return fmt.Errorf("%s is in a value that another setting names", path(all))
		}
		s := steps[0]
		var next *node
		if s.index >= 0 {
			if n.items == nil {
				n.items = map[int]*node{}
			}
			if next = n.items[s.index]; next == nil {
				next = newNode()
				n.items[s.index] = next
			}
		} else {
			if n.names == nil {
				n.names = map[string]*node{}
			}
			if next = n.names[s.name]; next == nil {
				next = newNode()
				n.names[s.name] = next
			}
		}
		n = next
	}
	if n.target != none || n.names != nil || n.items != nil {
		return fmt.Errorf("another setting names %s, or a value in it", path(all))
	}
	n.target = target
	return nil
}

// Decode implements Decoder.
func (d *jsonDecoder) Decode(payload []byte, b *codec.Batch) error {
	b.Reset()
	d.beginMessage()
	d.payload = bytes.TrimPrefix(payload, byteOrderMark)
	d.buf = *bytes.NewBuffer(d.payload) // the tokenizer reads it in place
	d.tokens.Reset(&d.buf)
	err := d.decodeValues(b)
	d.buf, d.payload = bytes.Buffer{}, nil // do not keep the payload
	d.tokens.Reset(&d.buf)
	if miss, ok := err.(*missingChannel); ok {
		err = d.missing(JSON, b.Rows, miss.channel, namesIn(payload))
	}
	if err != nil {
		b.Reset()
	}
	return err
}

// byteOrderMark begins the texts of some Windows programs.
var byteOrderMark = []byte("\xef\xbb\xbf")

// missingChannel becomes an error that lists the values of the message.
type missingChannel struct{ channel int }

func (*missingChannel) Error() string { return "channel missing" }

// decodeValues reads the values of a message: one, or several in sequence (JSON lines).
func (d *jsonDecoder) decodeValues(b *codec.Batch) error {
	for values := 0; ; values++ {
		if d.tokens.PeekKind() == 0 {
			_, err := d.tokens.ReadToken()
			if err != io.EOF {
				return d.syntaxError(err)
			}
			if values == 0 {
				return malformed(JSON, "no value, want an object or an array")
			}
			return d.endMessage(b)
		}
		if err := d.readValue(b); err != nil {
			return err
		}
	}
}

// readValue reads a value: rows, or a value that contains rows.
func (d *jsonDecoder) readValue(b *codec.Batch) error {
	if d.message == nil {
		return d.readRows(b)
	}
	from, found := b.Rows, false
	d.whole.reset()
	if err := d.readOuter(d.message, b, &found); err != nil {
		return err
	}
	if !found {
		return mismatch(JSON, "no rows at %s (input.rows)", d.Rows)
	}
	return d.markRows(b, from, &d.whole, &d.layout.time, &d.layout.stream, true)
}

// readOuter walks through the values around the rows.
func (d *jsonDecoder) readOuter(n *node, b *codec.Batch, found *bool) error {
	switch {
	case n.target == rowsTarget:
		*found = true
		if k := d.tokens.PeekKind(); k != '[' {
			return d.unexpected(b.Rows, "rows", d.layout.rows.text, "an array of rows")
		}
		return d.readRows(b)
	case n.target != none:
		return d.readLeaf(n.target, &d.whole, b.Rows)
	}
	return d.visitInside(n, func(child *node) error { return d.readOuter(child, b, found) })
}

// readRows reads a row, or an array of rows. An array whose first element is neither an
// object nor an array is a row itself.
func (d *jsonDecoder) readRows(b *codec.Batch) error {
	if d.tokens.PeekKind() != '[' {
		return d.readRecord(b, false)
	}
	if err := d.skipToken(); err != nil {
		return err
	}
	switch d.tokens.PeekKind() {
	case '{', '[':
	case ']':
		return d.skipToken()
	default:
		if len(d.channels) > 1 || !d.plain {
			return d.readRecord(b, true)
		}
	}
	for d.tokens.PeekKind() != ']' {
		if err := d.readRecord(b, false); err != nil {
			return err
		}
	}
	return d.skipToken()
}

// readRecord reads a record; opened: the record is an array whose bracket has been read.
func (d *jsonDecoder) readRecord(b *codec.Batch, opened bool) error {
	d.beginRecord()
	clear(d.found)
	if err := d.readFields(b.Rows, opened); err != nil {
		return err
	}
	for c, seen := range d.found {
		if !seen {
			return &missingChannel{c}
		}
	}
	return d.endRecord(b)
}

// readFields reads the fields of a record.
func (d *jsonDecoder) readFields(row int, opened bool) error {
	k := d.tokens.PeekKind()
	switch {
	case opened && !d.plain:
		return d.readItems(d.record, row)
	case d.plain && (opened || k == '['):
		return d.readPositional(row, opened)
	case d.plain && k != '{' && len(d.channels) == 1: // a sensor with a single plain value
		return d.readLeaf(0, &d.row, row)
	case d.record.target == none && k != '{' && k != '[':
		return d.unexpected(row, "row", "", "an object")
	}
	return d.walk(d.record, row)
}

// readPositional reads an array of one value per channel, in the model's order.
func (d *jsonDecoder) readPositional(row int, opened bool) error {
	if !opened {
		if err := d.skipToken(); err != nil {
			return err
		}
	}
	n := 0
	for ; d.tokens.PeekKind() != ']'; n++ {
		if n == len(d.channels) {
			return mismatch(JSON, "row %d is an array of more than %d values, want one for each channel (%s), or an object with their names", row, n, list(d.schema.Channels))
		}
		if err := d.readLeaf(n, &d.row, row); err != nil {
			return err
		}
	}
	if n < len(d.channels) {
		return mismatch(JSON, "row %d is an array of %d values, want %d, one for each channel (%s)", row, n, len(d.channels), list(d.schema.Channels))
	}
	return d.skipToken()
}

// walk walks through a record to its values.
func (d *jsonDecoder) walk(n *node, row int) error {
	if n.target != none {
		return d.readLeaf(n.target, &d.row, row)
	}
	switch k := d.tokens.PeekKind(); {
	case k == '{' && n.names != nil:
		if err := d.skipToken(); err != nil {
			return err
		}
		for d.tokens.PeekKind() != '}' {
			child, err := d.readMember(n)
			if err == nil && child != nil {
				err = d.walk(child, row)
			}
			if err != nil {
				return err
			}
		}
		return d.skipToken()
	case k == '[' && n.items != nil:
		if err := d.skipToken(); err != nil {
			return err
		}
		return d.readItems(n, row)
	}
	return d.skipValue()
}

// readMember reads a name, and skips its value if no source refers to it.
func (d *jsonDecoder) readMember(n *node) (*node, error) {
	raw, err := d.tokens.ReadValue()
	if err != nil {
		return nil, d.syntaxError(err)
	}
	if child := n.names[string(d.unquote(raw))]; child != nil {
		return child, nil
	}
	return nil, d.skipValue()
}

// readItems walks through the elements of an array whose bracket has been read.
func (d *jsonDecoder) readItems(n *node, row int) error {
	for i := 0; d.tokens.PeekKind() != ']'; i++ {
		err := error(nil)
		if child := n.items[i]; child != nil {
			err = d.walk(child, row)
		} else {
			err = d.skipValue()
		}
		if err != nil {
			return err
		}
	}
	return d.skipToken()
}

// visitInside visits the nodes on the way of a node's sources, around the rows.
func (d *jsonDecoder) visitInside(n *node, visit func(*node) error) error {
	switch k := d.tokens.PeekKind(); {
	case k == '{' && n.names != nil:
		if err := d.skipToken(); err != nil {
			return err
		}
		for d.tokens.PeekKind() != '}' {
			child, err := d.readMember(n)
			if err == nil && child != nil {
				err = visit(child)
			}
			if err != nil {
				return err
			}
		}
		return d.skipToken()
	case k == '[' && n.items != nil:
		if err := d.skipToken(); err != nil {
			return err
		}
		for i := 0; d.tokens.PeekKind() != ']'; i++ {
			err := error(nil)
			if child := n.items[i]; child != nil {
				err = visit(child)
			} else {
				err = d.skipValue()
			}
			if err != nil {
				return err
			}
		}
		return d.skipToken()
	}
	return d.skipValue()
}
