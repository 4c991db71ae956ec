package pipelinetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/nats-io/nats.go"
)

const (
	headerSeq = "Eusn-Seq" // a message's number
	headerEnd = "Eusn-End" // ends a sequence
)

// Recording holds all samples of a stream.
type Recording struct {
	Name  string
	X     []float32
	Times []int64
	Ends  []bool
}

// Recordings are random; about one time in eight follows a silence of more than 5 ms.
func Recordings(streams, rows int) []Recording {
	rng := rand.New(rand.NewPCG(3, uint64(streams*rows)))
	all := make([]Recording, streams)
	for i := range all {
		r := Recording{Name: fmt.Sprintf("s%d", i), X: Noise(rng, 2*rows)}
		now := int64(1_700_000_000_000_000_000)
		for j := range rows {
			step := time.Millisecond
			if rng.IntN(8) == 0 {
				step = 9 * time.Millisecond
			}
			now += int64(step)
			r.Times = append(r.Times, now)
			r.Ends = append(r.Ends, rng.IntN(10) == 0 || j == rows-1)
		}
		if i%3 == 0 && rows > 20 { // a channel is stuck for a while
			for j := 5; j < 20; j++ {
				r.X[2*j] = r.X[8]
			}
		}
		all[i] = r
	}
	return all
}

// Split cuts a recording into messages of random size.
func (r Recording) Split(rng *rand.Rand) []Packet {
	var out []Packet
	for from := 0; from < len(r.Times); {
		to := min(len(r.Times), from+1+rng.IntN(12))
		out = append(out, Packet{Key: r.Name, Seq: uint64(len(out) + 1), Batch: codec.Batch{
			Rows: to - from, X: r.X[2*from : 2*to], Times: r.Times[from:to], Ends: r.Ends[from:to],
		}})
		from = to
	}
	return out
}

// Interleave mixes the streams' messages at random, each stream in order.
func Interleave(rng *rand.Rand, all [][]Packet) []Packet {
	var out []Packet
	all = slices.Clone(all)
	for len(all) > 0 {
		i := rng.IntN(len(all))
		out = append(out, all[i][0])
		if all[i] = all[i][1:]; len(all[i]) == 0 {
			all = slices.Delete(all, i, i+1)
		}
	}
	return out
}

// Packet is an input message before encoding.
type Packet struct {
	Key    string
	Seq    uint64
	Batch  codec.Batch
	Header map[string]string
	Raw    []byte // instead of batch
}

// Payload encodes a packet with all optional fields.
func (p Packet) Payload(t testing.TB) []byte {
	t.Helper()
	if p.Raw != nil {
		return p.Raw
	}
	enc, err := codec.NewInputEncoder([]string{"x", "y"}, codec.InputOptions{
		Times: len(p.Batch.Times) > 0, Ends: len(p.Batch.Ends) > 0, Keys: len(p.Batch.Keys) > 0,
	})
	if err != nil {
		t.Fatal(err)
	}
	data, err := enc.Encode(&p.Batch)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(data)
}

// Headers returns the packet's headers, with its number if the number is set.
func (p Packet) Headers() map[string][]string {
	h := nats.Header{}
	if p.Seq > 0 {
		h.Set(headerSeq, strconv.FormatUint(p.Seq, 10))
	}
	for k, v := range p.Header {
		h.Set(k, v)
	}
	return h
}

// With sets a header of a packet with headers.
func (p Packet) With(header, value string) Packet {
	p.Header[header] = value
	return p
}

// Mixed returns the packets of recordings, interleaved.
func Mixed(streams []Recording, seed uint64) (packets []Packet, sent map[string][]Packet) {
	rng := rand.New(rand.NewPCG(seed, 1))
	sent = map[string][]Packet{}
	var lists [][]Packet
	for _, r := range streams {
		sent[r.Name] = r.Split(rng)
		lists = append(lists, sent[r.Name])
	}
	return Interleave(rng, lists), sent
}

// One returns a message of n samples of the value v.
func One(key string, seq uint64, n int, v float32, end bool) Packet {
	p := Packet{Key: key, Seq: seq, Batch: codec.Batch{Rows: n, X: slices.Repeat([]float32{v, -v}, n)}, Header: map[string]string{}}
	if end {
		p.Header[headerEnd] = "true"
	}
	return p
}

// Disorder repeats some messages and delays some, never more than the stage can hold.
func Disorder(packets []Packet, rng *rand.Rand) []Packet {
	var out []Packet
	late := map[string]Packet{}
	for _, p := range packets {
		if l, ok := late[p.Key]; ok && p.Seq > l.Seq+2 {
			out = append(out, l)
			delete(late, p.Key)
		}
		switch _, waiting := late[p.Key]; {
		case !waiting && rng.IntN(6) == 0:
			late[p.Key] = p
			continue
		case rng.IntN(5) == 0:
			out = append(out, p)
		}
		out = append(out, p)
	}
	for _, l := range late {
		out = append(out, l)
	}
	return out
}

// Rows returns a message of one stream with samples of two channels.
func Rows(key string, seq uint64, end bool, values ...float32) Packet {
	p := Packet{Key: key, Seq: seq, Batch: codec.Batch{Rows: len(values) / 2, X: values}, Header: map[string]string{}}
	if end {
		p.Header[headerEnd] = "true"
	}
	return p
}

// Crowd returns a message of n streams, one row each, without end marks.
func Crowd(n int) Packet {
	p := Packet{Key: "crowd", Seq: 1, Batch: codec.Batch{Rows: n, X: make([]float32, 2*n)}, Header: map[string]string{}}
	for i := range n {
		p.Batch.Keys = append(p.Batch.Keys, fmt.Sprint("id", i))
		p.Batch.Key = append(p.Batch.Key, int32(i))
	}
	return p
}
