package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// plan locates the wanted fields in the record batches of one schema.
type plan struct {
	schema   []byte   // metadata bytes of the schema message
	channels []column // in the model's order; nil if list is set
	list     *column  // the field x
	time     *column
	end      *column
	stream   *column
	shape    shape // of the last message
}

// newPlan reads a schema message and checks it against the model's channels.
func newPlan(fr *frame, channels []string) (*plan, error) {
	if err := checkVersion(fr, "input"); err != nil {
		return nil, err
	}
	c := newCollector(append([]string{fieldStream, fieldTime, fieldEnd, fieldList}, channels...))
	if err := walkSchema(fr, c.visit); err != nil {
		return nil, err
	}
	p := &plan{time: c.want[fieldTime], end: c.want[fieldEnd], stream: c.want[fieldStream]}
	if err := p.findSamples(c, channels); err != nil {
		return nil, err
	}
	return p, p.checkTypes(len(channels))
}

// findSamples prefers one field per channel to the field x.
func (p *plan) findSamples(c *collector, channels []string) error {
	missing := ""
	for _, name := range channels {
		col := c.want[name]
		if col == nil || name == fieldList && col.typ.is(typeFixedSizeList) {
			missing = name
			break
		}
		p.channels = append(p.channels, *col)
	}
	if missing == "" {
		return nil
	}
	p.channels = nil
	if p.list = c.want[fieldList]; p.list == nil {
		return mismatch("field %q: want it or a list %q, got %s", missing, fieldList, c.seen())
	}
	return nil
}

// checkTypes refuses fields whose type does not fit their use.
func (p *plan) checkTypes(channels int) error {
	for i := range p.channels {
		if c := &p.channels[i]; c.typ.scalar() == notNumber {
			return c.wants("float32")
		}
	}
	if c := p.list; c != nil && (!c.typ.is(typeFixedSizeList) || c.typ.num == notNumber || c.typ.size != channels) {
		return c.wants(fmt.Sprintf("fixed_size_list<float32>[%d]", channels))
	}
	if c := p.time; c != nil && (!c.typ.is(typeTimestamp) || c.typ.unit < 0 || c.typ.unit > 3) {
		return c.wants("timestamp")
	}
	if c := p.end; c != nil && !c.typ.is(typeBool) {
		return c.wants("bool")
	}
	if c := p.stream; c != nil && !streamType(c.typ) {
		return c.wants("utf8, a dictionary of utf8, or an integer")
	}
	return nil
}

func (c *column) wants(what string) error {
	return mismatch("field %q: want %s, got %s", c.name, what, c.typ)
}

// streamType reports whether a field of the type can name streams.
func streamType(t dataType) bool {
	text := t.kind == typeUtf8 || t.kind == typeLargeUtf8 || t.kind == typeUtf8View
	if t.dictionary {
		return text && t.index != notNumber
	}
	return text || t.kind == typeInt && t.num != notNumber
}

// collector gathers the wanted fields of a schema, and some names to show.
type collector struct {
	want    map[string]*column // by name; nil until met
	longest int                // bytes of the longest wanted name
	names   []string           // of the first few fields, shortened
	count   int
}

func newCollector(names []string) *collector {
	c := &collector{want: make(map[string]*column, len(names))}
	for _, name := range names {
		c.want[name] = nil
		c.longest = max(c.longest, len(name))
	}
	return c
}

func (c *collector) visit(sf schemaField) error {
	const showNames, showBytes = 8, 32
	c.count++
	if c.count <= showNames {
		c.names = append(c.names, fmt.Sprintf("%q", sf.name[:min(len(sf.name), showBytes)]))
	}
	// A schema may refer to one long name many times, and looking up a name
	// reads it: no longer name than the longest wanted name is worth reading.
	if len(sf.name) > c.longest {
		return nil
	}
	old, wanted := c.want[string(sf.name)]
	if !wanted {
		return nil
	}
	if old != nil {
		return mismatch("two fields are named %q", sf.name)
	}
	col := sf.col
	col.name = string(sf.name)
	c.want[col.name] = &col
	return nil
}

func (c *collector) seen() string {
	if c.count == 0 {
		return "no fields"
	}
	s := strings.Join(c.names, ", ")
	if more := c.count - len(c.names); more > 0 {
		s = fmt.Sprintf("%s and %d more", s, more)
	}
	return s
}

// shape is the metadata of a message, for a later message with the same metadata.
// Messages of a sensor mostly differ only in their samples: schema and record batch
// metadata are equal to the byte, and so is their parsed form.
type shape struct {
	head  []byte      // of the message, up to the body of its one record batch; empty: unknown
	body  int         // its length
	batch recordBatch // without the body
}

// endBytes is the length of the end-of-stream marker.
const endBytes = 8

// known finds the plan and the record batch of a message by the metadata of an
// earlier message; nil = none.
func (d *Decoder) known(payload []byte) (*plan, recordBatch) {
	for _, p := range d.plans {
		if p == nil || len(p.shape.head) == 0 {
			continue
		}
		s := &p.shape
		end := len(s.head) + s.body
		if len(payload) == end+endBytes && bytes.HasPrefix(payload, s.head) && binary.LittleEndian.Uint64(payload[end:]) == continuation {
			rb := s.batch
			rb.body = payload[len(s.head):end]
			return p, rb
		}
	}
	return nil, recordBatch{}
}

// remember keeps the shape of a message with only a schema and one record batch. A
// compressed message is not worth keeping.
func (p *plan) remember(payload []byte, rb *recordBatch) {
	head := payload[:len(payload)-endBytes-len(rb.body)]
	if p.schema == nil || rb.compressed || len(head) > maxKnownSchema {
		return
	}
	meta := len(rb.f.b) // the metadata ends at the start of the body
	s := &p.shape
	s.head, s.body, s.batch = append(s.head[:0], head...), len(rb.body), *rb
	s.batch.body, s.batch.left, s.batch.f = nil, len(rb.body), flatbuf{b: s.head[len(s.head)-meta:]}
}
