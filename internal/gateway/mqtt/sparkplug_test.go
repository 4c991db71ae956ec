package mqtt

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/gateway/sparkplug"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

type oneChannel struct{}

func (oneChannel) Channel(name string) (int, bool) { return 0, name == "v" }
func (oneChannel) Name(int) string                 { return "v" }
func (oneChannel) Sample(_ int, v any) (float32, bool) {
	x, ok := v.(float32)
	return x, ok
}

// metricV encodes a Sparkplug B message with the metric v at a time in ms, by name and alias or
// only by alias.
func metricV(seq, ms byte, name bool, x float32) []byte {
	m := []byte{0x10, 1} // alias
	if name {
		m = append(m, 0x0a, 1, 'v')
	}
	m = binary.LittleEndian.AppendUint32(append(m, 0x65), math.Float32bits(x))
	return append(append([]byte{0x08, ms, 0x12, byte(len(m))}, m...), 0x18, seq)
}

// waitUntil waits for a condition.
func (r *rig) waitUntil(condition func() bool) {
	r.t.Helper()
	for timeout := time.Now().Add(pipelinetest.Patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(timeout) {
			r.t.Fatalf("it does not happen\n%s", r.book.String())
		}
	}
}

// An edge node with data before its birth gets a request for a birth, over the gateway's own
// broker and over another broker; then its data are samples. Its death reaches the gateway as a
// will.
func TestSparkplug(t *testing.T) {
	for _, way := range []string{"own", "other"} {
		t.Run(way, func(t *testing.T) {
			r := newRig(t)
			addr := "127.0.0.1:0"
			input := func(g *gateway.Gateway, topics *gateway.Topics) (func(), error) {
				host, err := sparkplug.New(g, sparkplug.Options{Groups: "G", Channels: oneChannel{}, Count: 1})
				if err != nil {
					return nil, err
				}
				if way == "own" {
					b, err := Listen(g, BrokerOptions{Addr: addr, Topics: topics, Sparkplug: host, MaxMessage: 1 << 16, Log: r.book.Logger()})
					if err != nil {
						return nil, err
					}
					addr = b.Addr().String()
					return b.Close, nil
				}
				c, err := Follow(g, ClientOptions{URL: "tcp://" + addr, ID: "gateway", Topics: topics, Sparkplug: host, Log: r.book.Logger()})
				if err != nil {
					return nil, err
				}
				return c.Close, nil
			}
			if way == "other" {
				addr = startMosquitto(t)
			}
			g, _ := r.startGateway(input)
			if way == "other" {
				r.waitUntil(func() bool { return r.book.Lines("connected to the broker") > 0 })
			}
			births := make(chan struct{}, 9)
			node := r.connectDevice(addr, "node", func(o *paho.ClientOptions) {
				o.SetCleanSession(true).SetAutoReconnect(false).SetBinaryWill("spBv1.0/G/NDEATH/n", []byte{0x08, 1}, 1, false)
			})
			r.waitForToken(node.Subscribe("spBv1.0/G/NCMD/n/#", 1, func(_ paho.Client, m paho.Message) {
				if m.Topic() == "spBv1.0/G/NCMD/n" && strings.Contains(string(m.Payload()), "Node Control/Rebirth") {
					births <- struct{}{}
				}
			}))
			send := func(kind string, payload []byte) { r.waitForToken(node.Publish("spBv1.0/G/"+kind, 0, false, payload)) }
			send("NDATA/n", metricV(7, 1, false, 7)) // with an unknown alias
			select {
			case <-births:
			case <-time.After(pipelinetest.Patience):
				t.Fatalf("the node is not asked for a birth\n%s", r.book.String())
			}
			send("NBIRTH/n", metricV(0, 1, true, 10))
			send("NDATA/n", metricV(1, 2, false, 11))
			send("NDATA/n", metricV(2, 3, false, 12))
			send("DBIRTH/n/d", metricV(3, 3, true, 20))
			send("DDATA/n/d", metricV(4, 4, false, 21))
			r.waitUntil(func() bool { return g.Stats().Samples == 3 })
			r.connectDevice(addr, "node", func(o *paho.ClientOptions) { o.SetCleanSession(true) }) // takes over the session: the broker sends the will
			secondDevice := r.connectDevice(addr, "node2", func(o *paho.ClientOptions) { o.SetCleanSession(true) })
			refused := func() uint64 { return g.Stats().Refused["mqtt"] + g.Stats().Refused["broker"] }
			for before := refused(); refused() == before; time.Sleep(20 * time.Millisecond) { // until the death has arrived
				r.waitForToken(secondDevice.Publish("spBv1.0/G/NDATA/n", 0, false, metricV(5, 5, false, 1)))
			}
			got := r.storedSamples()
			for key, want := range map[string][]float32{"G/n": {11, 12}, "G/n/d": {21}} {
				if x := got[key]; len(x) < len(want) || !slices.Equal(x[:len(want)], want) {
					t.Errorf("%s: %v, want %v", key, x, want)
				}
			}
		})
	}
}
