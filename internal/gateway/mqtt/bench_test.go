package mqtt

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// numbers decodes comma-separated numbers, one sample per number.
type numbers struct{}

func (numbers) Decode(p []byte) ([]gateway.Part, error) {
	var x []float32
	for word := range strings.SplitSeq(string(p), ",") {
		v, err := strconv.ParseFloat(word, 32)
		if err != nil {
			return nil, err
		}
		x = append(x, float32(v))
	}
	return []gateway.Part{{X: x}}, nil
}

const (
	benchDevices = 200
	benchWindow  = 20 // unacknowledged messages per device
)

func benchInput(b *testing.B) (jetstream.JetStream, func(g gateway.Config) *gateway.Gateway) {
	b.Helper()
	nc, js := pipelinetest.Connect(b, pipelinetest.Server(b, natsserver.Options{Dir: b.TempDir()}))
	if _, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "EUSN-IN", Subjects: []string{"sensors.*"}, Discard: jetstream.DiscardNew,
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: "sensors.*", Destination: "eusn.in.{{partition(16,1)}}.{{wildcard(1)}}"}}); err != nil {
		b.Fatal(err)
	}
	return js, func(c gateway.Config) *gateway.Gateway {
		g, err := gateway.New(nc, c)
		if err != nil {
			b.Fatal(err)
		}
		return g
	}
}

func makePayload(rows int) string {
	return strings.TrimSuffix(strings.Repeat("0.125,", rows), ",")
}

// 200 devices send with QoS 1 to the gateway's own broker, and the server stores their
// messages.
func BenchmarkDevices(b *testing.B) {
	for _, rows := range []int{1, 10} {
		b.Run(fmt.Sprint("rows=", rows), func(b *testing.B) {
			_, open := benchInput(b)
			g := open(gateway.Config{Channels: []string{"x"}, Decoder: numbers{}, Lines: numbers{}, Dir: b.TempDir()})
			topics, err := gateway.ParseTopics("plant/+")
			if err != nil {
				b.Fatal(err)
			}
			broker, err := Listen(g, BrokerOptions{Addr: "127.0.0.1:0", Topics: topics, MaxMessage: 1 << 16, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- g.Run(ctx) }()
			defer func() { broker.Close(); cancel(); <-done }()
			count := b.N/benchDevices + 1
			var all sync.WaitGroup
			b.ResetTimer()
			began := time.Now()
			for d := range benchDevices {
				all.Go(func() {
					if err := benchDevice(broker.Addr().String(), d, count, makePayload(rows)); err != nil {
						b.Error(err)
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(count*benchDevices*rows)/time.Since(began).Seconds(), "rows/s")
			b.ReportMetric(float64(count*benchDevices)/float64(max(1, g.Stats().Batches)), "messages/batch")
		})
	}
}

// benchDevice publishes n messages and waits for their acknowledgements.
func benchDevice(addr string, id, n int, text string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	name := fmt.Sprintf("d%04d", id)
	if _, err := io.WriteString(c, "\x10\x11\x00\x04MQTT\x04\x00\x00\x3c\x00\x05"+name); err != nil {
		return err
	}
	r := bufio.NewReader(c)
	if _, err := io.ReadFull(r, make([]byte, 4)); err != nil {
		return err
	}
	topic := "plant/" + name
	head := append([]byte{0x32, byte(2 + len(topic) + 2 + len(text)), 0, byte(len(topic))}, topic...)
	room := make(chan struct{}, benchWindow)
	acked := make(chan error, 1)
	go func() {
		ack := make([]byte, 4)
		for range n {
			if _, err := io.ReadFull(r, ack); err != nil {
				acked <- err
				return
			}
			<-room
		}
		acked <- nil
	}()
	for i := range n {
		room <- struct{}{}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(head[:len(head):len(head)], uint16(i%65535+1)), text...)); err != nil {
			return err
		}
	}
	return <-acked
}

// The same payloads published to the input over NATS without a gateway: one message per
// payload, with as many unacknowledged messages as all devices together.
func BenchmarkPlainJetStream(b *testing.B) {
	for _, rows := range []int{1, 10} {
		b.Run(fmt.Sprint("rows=", rows), func(b *testing.B) {
			js, _ := benchInput(b)
			data := []byte(makePayload(rows))
			b.ResetTimer()
			began := time.Now()
			pending := make(chan jetstream.PubAckFuture, 512)
			done := make(chan error, 1)
			go func() {
				for f := range pending {
					select {
					case <-f.Ok():
					case err := <-f.Err():
						done <- err
						return
					}
				}
				done <- nil
			}()
			for i := range b.N {
				f, err := js.PublishAsync(fmt.Sprintf("sensors.d%04d", i%benchDevices), data, jetstream.WithStallWait(10*time.Second))
				if err != nil {
					b.Fatal(err)
				}
				pending <- f
			}
			close(pending)
			if err := <-done; err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N*rows)/time.Since(began).Seconds(), "rows/s")
		})
	}
}
