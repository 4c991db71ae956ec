package pipeline

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// recording is everything one stream sends.
type recording struct {
	name  string
	x     []float32
	times []int64
	ends  []bool
}

// recordings are drawn; times have a silence of more than 5 ms about one time
// in eight.
func recordings(streams, rows int) []recording {
	rng := rand.New(rand.NewPCG(3, uint64(streams*rows)))
	all := make([]recording, streams)
	for i := range all {
		r := recording{name: fmt.Sprintf("s%d", i), x: noise(rng, 2*rows)}
		now := int64(1_700_000_000_000_000_000)
		for j := range rows {
			step := time.Millisecond
			if rng.IntN(8) == 0 {
				step = 9 * time.Millisecond
			}
			now += int64(step)
			r.times = append(r.times, now)
			r.ends = append(r.ends, rng.IntN(10) == 0 || j == rows-1)
		}
		if i%3 == 0 && rows > 20 { // a channel that is stuck for a while
			for j := 5; j < 20; j++ {
				r.x[2*j] = r.x[8]
			}
		}
		all[i] = r
	}
	return all
}

// split cuts a recording into messages of random size.
func (r recording) split(rng *rand.Rand) []packet {
	var out []packet
	for from := 0; from < len(r.times); {
		to := min(len(r.times), from+1+rng.IntN(12))
		out = append(out, packet{key: r.name, seq: uint64(len(out) + 1), batch: codec.Batch{
			Rows: to - from, X: r.x[2*from : 2*to], Times: r.times[from:to], Ends: r.ends[from:to],
		}})
		from = to
	}
	return out
}

// interleave mixes the streams' messages at random, each stream in order.
func interleave(rng *rand.Rand, all [][]packet) []packet {
	var out []packet
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

// packet is one input message before it is encoded.
type packet struct {
	key    string
	seq    uint64
	batch  codec.Batch
	header map[string]string
	raw    []byte // instead of batch
}

// payload encodes a packet with every optional field it has.
func (p packet) payload(t testing.TB) []byte {
	t.Helper()
	if p.raw != nil {
		return p.raw
	}
	enc, err := codec.NewInputEncoder([]string{"x", "y"}, codec.InputOptions{
		Times: len(p.batch.Times) > 0, Ends: len(p.batch.Ends) > 0, Keys: len(p.batch.Keys) > 0,
	})
	if err != nil {
		t.Fatal(err)
	}
	data, err := enc.Encode(&p.batch)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(data)
}

// mixed makes the packets of recordings, interleaved.
func mixed(streams []recording, seed uint64) (packets []packet, sent map[string][]packet) {
	rng := rand.New(rand.NewPCG(seed, 1))
	sent = map[string][]packet{}
	var lists [][]packet
	for _, r := range streams {
		sent[r.name] = r.split(rng)
		lists = append(lists, sent[r.name])
	}
	return interleave(rng, lists), sent
}

// one makes a message of n samples of the value v.
func one(key string, seq uint64, n int, v float32, end bool) packet {
	p := packet{key: key, seq: seq, batch: codec.Batch{Rows: n, X: slices.Repeat([]float32{v, -v}, n)}, header: map[string]string{}}
	if end {
		p.header[wire.HeaderEnd] = "true"
	}
	return p
}

// disorder repeats some messages and sends some late, never more than the
// stage holds.
func disorder(packets []packet, rng *rand.Rand) []packet {
	var out []packet
	late := map[string]packet{}
	for _, p := range packets {
		if l, ok := late[p.key]; ok && p.seq > l.seq+2 {
			out = append(out, l)
			delete(late, p.key)
		}
		switch _, waiting := late[p.key]; {
		case !waiting && rng.IntN(6) == 0:
			late[p.key] = p
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
