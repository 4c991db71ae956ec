package plan

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/load"
)

// replicas is the number of servers that store a message in a replicated setup.
const replicas = 3

// measureStoring measures the CPU time of a server for storing a message and of a publisher for
// sending it: messages of one sample and of the plant's size, many at once, for a NATS stream
// of n replicas. The result write is the number of bytes written to disks per byte stored on
// one disk.
func measureStoring(ctx context.Context, js jetstream.JetStream, n int, p plant, channels []string, duration time.Duration) (cost linear, write float64, err error) {
	var seconds, bytes [2]float64
	for i, rows := range []int{1, max(2, p.Message)} {
		name := fmt.Sprintf("trial-%d-%d", n, i)
		if err := retryUntilReady(ctx, func(ctx context.Context) error {
			_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name + ".*"}, Replicas: n})
			return err
		}); err != nil {
			return cost, 0, fmt.Errorf("a NATS stream to try: %w", err)
		}
		written := bytesWritten()
		gen, err := load.New(js, load.Options{Channels: channels, Rows: rows, Keys: 100, Subject: name, Patience: patience})
		if err != nil {
			return cost, 0, err
		}
		if err := gen.Burst(ctx, 100); err != nil {
			return cost, 0, err
		}
		start, count := time.Now(), 0
		cpu, err := measureCPU(func() error {
			for time.Since(start) < duration/3 {
				if err := gen.Burst(ctx, 256); err != nil {
					return err
				}
				count += 256
			}
			return nil
		})
		if err != nil {
			return cost, 0, err
		}
		seconds[i], bytes[i] = cpu.Seconds()/float64(count), float64(gen.MessageBytes())
		s, err := js.Stream(ctx, name)
		if err != nil {
			return cost, 0, fmt.Errorf("a NATS stream to try: %w", err)
		}
		if i > 0 {
			write = max(1, (bytesWritten()-written)/float64(n)/float64(s.CachedInfo().State.Bytes))
		}
		// The stream itself stays until the server ends. A server removes its directory of
		// streams after the last stream is deleted, in the background: the creation of the next
		// stream can lose that race, with error 10049 (nats-server 2.15.2).
		if err := s.Purge(ctx); err != nil {
			return cost, 0, fmt.Errorf("a NATS stream to try: %w", err)
		}
	}
	return fitLine(bytes, seconds), write, nil
}

// fitLine returns the linear cost of two measured sizes.
func fitLine(bytes, seconds [2]float64) linear {
	slope := max(0, (seconds[1]-seconds[0])/(bytes[1]-bytes[0]))
	return linear{Message: max(0, seconds[1]-slope*bytes[1]), Byte: slope}
}

// measureCopying measures the cost of storing a message on three servers: a cluster of three in
// this process, connected by TCP, receives the same messages for a NATS stream with one replica
// and for another with three.
func measureCopying(ctx context.Context, p plant, channels []string, dir string, duration time.Duration, r *measured) (err error) {
	all, err := startCluster(dir)
	defer func() {
		for _, s := range all {
			s.Shutdown()
			s.WaitForShutdown()
		}
	}()
	if err != nil {
		return fmt.Errorf("three servers: %w", err)
	}
	nc, err := nats.Connect(all[0].ClientURL(), nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("three servers: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(512))
	if err != nil {
		return err
	}
	single, _, err := measureStoring(ctx, js, 1, p, channels, duration)
	if err != nil {
		return err
	}
	three, write, err := measureStoring(ctx, js, replicas, p, channels, duration)
	if err != nil {
		return err
	}
	r.Write = write
	r.Costs.Copy = linear{Message: max(0, three.Message-single.Message) / replicas, Byte: max(0, three.Byte-single.Byte) / replicas}
	return nil
}

// retryUntilReady retries until a starting cluster succeeds.
func retryUntilReady(ctx context.Context, f func(context.Context) error) error {
	var err error
	for late := time.Now().Add(patience); time.Now().Before(late); time.Sleep(100 * time.Millisecond) {
		one, cancel := context.WithTimeout(ctx, 5*time.Second)
		err = f(one)
		cancel()
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return errors.Join(err, ctx.Err())
}

// startCluster starts three servers of one cluster on this machine.
func startCluster(dir string) (all []*natsd.Server, err error) {
	var routes []*url.URL
	var ports []int
	for range replicas {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		port := l.Addr().(*net.TCPAddr).Port
		ports = append(ports, port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	for i := range replicas {
		s, err := natsd.NewServer(&natsd.Options{
			ServerName: fmt.Sprintf("plan%d", i), Host: "127.0.0.1", Port: natsd.RANDOM_PORT,
			JetStream: true, StoreDir: filepath.Join(dir, fmt.Sprintf("replica%d", i)), MaxPayload: 8 << 20,
			NoSigs: true, DisableJetStreamBanner: true, NoLog: true,
			Cluster: natsd.ClusterOpts{Name: "plan", Host: "127.0.0.1", Port: ports[i]}, Routes: routes,
		})
		if err != nil {
			return all, err
		}
		all = append(all, s)
		go s.Start()
	}
	for _, s := range all {
		if !s.ReadyForConnections(30 * time.Second) {
			return all, errors.New("a server does not take connections after 30 s")
		}
	}
	return all, nil
}

// bytesWritten returns the bytes written to disks by this process so far; 0 if unknown.
func bytesWritten() (n float64) {
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	return fieldOf(string(b), "write_bytes:")
}
