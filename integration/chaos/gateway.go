//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
)

// door is the entry to the input in runs with a gateway: each message is an HTTP request,
// whose samples the gateway publishes in its own messages.
type door struct {
	plan     *plan
	address  string
	nameless bool            // requests have no Idempotency-Key: a control
	keys     map[string]bool // of its devices; nil: all keys
	client   http.Client
	decoder  *codec.Decoder

	// single has the keys of devices with packet ids. While such a device has used one id, a
	// repeat may be its next message with the same content, so the gateway stores the repeat.
	single      map[string]bool
	first       map[string]int      // by key: the first message with numbers of the newest incarnation
	next        map[string]sampleOf // by key: the sample expected next
	incarnation map[string]string   // by key: of the gateway's numbers
	last        map[string]uint64   // by key: the number of the gateway's last message
	losses      []loss
	restarts    map[string]int // by key: changes of the incarnation
	doubled     int            // messages, by losses of power
}

// sampleOf is a row of a key's message.
type sampleOf struct{ message, row int }

func newDoor(p *plan, address string, nameless bool) (*door, error) {
	dec, err := codec.NewDecoder(codec.Schema{Channels: channelNames})
	return &door{plan: p, address: address, nameless: nameless, decoder: dec, next: map[string]sampleOf{}, incarnation: map[string]string{}, last: map[string]uint64{}, restarts: map[string]int{}, single: map[string]bool{}, first: map[string]int{}}, err
}

// serves reports whether the devices of a key send to the gateway.
func (d *door) serves(key string) bool { return d != nil && (d.keys == nil || d.keys[key]) }

// postMessage sends a message. A repeated request is recognized by its Idempotency-Key.
func (d *door) postMessage(ctx context.Context, m *input) error {
	text, err := m.postBody()
	if err != nil {
		return err
	}
	q, err := http.NewRequestWithContext(ctx, "POST", "http://"+d.address+"/v1/sensors/"+m.key, bytes.NewReader(text))
	if err != nil {
		return err
	}
	if !d.nameless {
		q.Header.Set("Idempotency-Key", fmt.Sprint(m.key, ":", m.seq))
	}
	a, err := d.client.Do(q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	said, err := io.ReadAll(a.Body)
	if a.StatusCode != http.StatusNoContent {
		return errors.Join(err, fmt.Errorf("chaos: HTTP %d: %s", a.StatusCode, said))
	}
	return err
}

// postBody returns the payload of a message to the gateway.
func (m *input) postBody() ([]byte, error) {
	var body struct {
		X    []float32 `json:"x"`
		Y    []float32 `json:"y"`
		Time []int64   `json:"time"`
		End  []bool    `json:"end,omitempty"`
	}
	body.Time, body.End = m.times, m.ends
	for i := range m.rows() {
		body.X, body.Y = append(body.X, m.x[i*channels]), append(body.Y, m.x[i*channels+1])
	}
	return json.Marshal(body)
}

// checkStored takes a message with the gateway's number, stored at a time. Its samples must be the
// next samples of the key; otherwise why describes them. done are the completely stored
// messages of the key.
func (d *door) checkStored(key, incarnation string, seq uint64, at time.Time, data []byte) (m *input, done []uint64, why string, err error) {
	var b codec.Batch
	if err := d.decoder.Decode(data, &b); err != nil {
		return nil, nil, "", fmt.Errorf("chaos: a message of the gateway for %s: %w", key, err)
	}
	m = &input{key: key, seq: seq, x: b.X, times: b.Times, incarnation: incarnation}
	if d.plan.marked {
		m.ends = append(b.Ends, make([]bool, b.Rows-len(b.Ends))...)
	}
	switch was := d.incarnation[key]; {
	case was != "" && was != incarnation && !d.restartsNumbers(m, at):
		return m, nil, fmt.Sprintf("the gateway restarted the numbers of %s with %s after %+v", key, d.describeRow(m, 0), d.next[key]), nil
	case was == incarnation && seq <= d.last[key]:
		return m, nil, "", nil // stored twice, with the same number: the stage drops the copy
	}
	d.incarnation[key], d.last[key] = incarnation, seq
	if d.repeatsOnly(m) {
		d.next[key] = sampleOf{d.first[key], 0}
	}
	next, all := d.next[key], d.plan.messages[key]
	for i := range b.Rows {
		if next.message == len(all) {
			return m, done, fmt.Sprintf("%s: message %d has a sample more than were sent, %s", key, seq, d.describeRow(m, i)), nil
		}
		want := all[next.message]
		if !want.hasRow(next.row, m, i) {
			return m, done, fmt.Sprintf("%s: row %d of message %d is %s, want row %d of the device's message %d", key, i, seq, d.describeRow(m, i), next.row, want.seq), nil
		}
		if next.row++; next.row == want.rows() {
			next = sampleOf{next.message + 1, 0}
			done = append(done, want.seq)
		}
		d.next[key] = next
	}
	return m, done, "", nil
}

// repeatsOnly reports whether m repeats the only message of a device with packet ids since
// the gateway has a memory of the device.
func (d *door) repeatsOnly(m *input) bool {
	first := d.first[m.key]
	return d.single[m.key] && d.next[m.key] == (sampleOf{first + 1, 0}) && m.rows() > 0 && d.plan.messages[m.key][first].hasRow(0, m, 0)
}

// describeRow returns the place of a stored row in the device's messages.
func (d *door) describeRow(m *input, i int) string {
	for _, of := range d.plan.messages[m.key] {
		for k := range of.rows() {
			if of.hasRow(k, m, i) {
				return fmt.Sprintf("row %d of message %d", k, of.seq)
			}
		}
	}
	return "of no message"
}

// hasRow reports whether row i of m is row k of o.
func (m *input) hasRow(i int, o *input, k int) bool {
	return k < len(o.times) && m.times[i] == o.times[k] && slices.Equal(m.x[i*channels:(i+1)*channels], o.x[k*channels:(k+1)*channels]) && (m.ends == nil || m.ends[i] == o.ends[k])
}

// loss is a loss of power of the gateway's machine.
type loss struct {
	at         time.Time
	unanswered map[string]int // by key: the first message without an acknowledgement
}

// restartsNumbers reports whether a key may have new numbers from message m on, stored at a
// time: at most once for each loss of power, if m begins with the sample expected next, or
// with a message that had no acknowledgement at the last loss.
func (d *door) restartsNumbers(m *input, at time.Time) bool {
	var last *loss
	n := 0
	for i := range d.losses {
		if !d.losses[i].at.After(at) {
			last = &d.losses[i]
			n++
		}
	}
	if d.restarts[m.key]++; last == nil || d.restarts[m.key] > n || m.rows() == 0 {
		return false
	}
	next, all := d.next[m.key], d.plan.messages[m.key]
	for first := last.unanswered[m.key]; first < min(next.message+1, len(all)); first++ {
		if all[first].hasRow(0, m, 0) {
			d.next[m.key], d.first[m.key] = sampleOf{first, 0}, first
			d.doubled += next.message - first
			return true
		}
	}
	d.first[m.key] = next.message
	return next.message < len(all) && all[next.message].hasRow(next.row, m, 0)
}
