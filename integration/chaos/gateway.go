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

	"github.com/eusn-stream/eusn-stream/codec"
)

// door is the entry to the input in runs with a gateway: each message is an HTTP request,
// whose samples the gateway publishes in its own messages.
type door struct {
	plan     *plan
	address  string
	nameless bool // requests have no Idempotency-Key: a control
	client   http.Client
	decoder  *codec.Decoder

	next        map[string]sampleOf // by key: the sample expected next
	incarnation map[string]string   // by key: of the gateway's numbers
	last        map[string]uint64   // by key: the number of the gateway's last message
}

// sampleOf is a row of a key's message.
type sampleOf struct{ message, row int }

func newDoor(p *plan, address string, nameless bool) (*door, error) {
	dec, err := codec.NewDecoder(codec.Schema{Channels: channelNames})
	return &door{plan: p, address: address, nameless: nameless, decoder: dec, next: map[string]sampleOf{}, incarnation: map[string]string{}, last: map[string]uint64{}}, err
}

// postMessage sends a message. A repeated request is recognized by its Idempotency-Key.
func (d *door) postMessage(ctx context.Context, m *input) error {
	var body struct {
		X    []float32 `json:"x"`
		Y    []float32 `json:"y"`
		Time []int64   `json:"time"`
	}
	body.Time = m.times
	for i := range m.rows() {
		body.X, body.Y = append(body.X, m.x[i*channels]), append(body.Y, m.x[i*channels+1])
	}
	text, err := json.Marshal(body)
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

// checkStored takes a stored message with the gateway's number. Its samples must be the
// next samples of the key; otherwise why describes them. done are the completely stored
// messages of the key.
func (d *door) checkStored(key, incarnation string, seq uint64, data []byte) (m *input, done []uint64, why string, err error) {
	var b codec.Batch
	if err := d.decoder.Decode(data, &b); err != nil {
		return nil, nil, "", fmt.Errorf("chaos: a message of the gateway for %s: %w", key, err)
	}
	m = &input{key: key, seq: seq, x: b.X, times: b.Times}
	switch was := d.incarnation[key]; {
	case was != "" && was != incarnation:
		return m, nil, fmt.Sprintf("the gateway restarted the numbers of %s", key), nil
	case seq <= d.last[key]:
		return m, nil, "", nil // stored twice, with the same number: the stage drops the copy
	}
	d.incarnation[key], d.last[key] = incarnation, seq
	at, all := d.next[key], d.plan.messages[key]
	for i := range b.Rows {
		if at.message == len(all) {
			return m, done, fmt.Sprintf("%s: message %d has a sample more than were sent", key, seq), nil
		}
		want := all[at.message]
		if len(b.Times) != b.Rows || b.Times[i] != want.times[at.row] || b.X[i*channels] != want.x[at.row*channels] || b.X[i*channels+1] != want.x[at.row*channels+1] {
			return m, done, fmt.Sprintf("%s: row %d of message %d is not row %d of the device's message %d", key, i, seq, at.row, want.seq), nil
		}
		if at.row++; at.row == want.rows() {
			at = sampleOf{at.message + 1, 0}
			done = append(done, want.seq)
		}
		d.next[key] = at
	}
	return m, done, "", nil
}
