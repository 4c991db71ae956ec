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

// replicas is how many servers store a message where more than one does.
const replicas = 3

// storing measures what a server spends on a message that it stores, and a publisher on sending
// it: messages of one sample and the plant's, many at once, for a NATS stream of n replicas.
// write is how many bytes went to disks for each that is stored on one of them.
func storing(ctx context.Context, js jetstream.JetStream, n int, p plant, channels []string, each time.Duration) (cost linear, write float64, err error) {
	var took, bytes [2]float64
	for i, rows := range []int{1, max(2, p.Message)} {
		name := fmt.Sprintf("trial-%d-%d", n, i)
		if err := inTime(ctx, func(ctx context.Context) error {
			_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name + ".*"}, Replicas: n})
			return err
		}); err != nil {
			return cost, 0, fmt.Errorf("plan: a NATS stream to try: %w", err)
		}
		written := bytesWritten()
		gen, err := load.New(js, load.Options{Channels: channels, Rows: rows, Keys: 100, Subject: name, Patience: patience})
		if err != nil {
			return cost, 0, err
		}
		if err := gen.Burst(ctx, 100); err != nil {
			return cost, 0, err
		}
		begin, sent := time.Now(), 0
		cpu, err := spent(func() error {
			for time.Since(begin) < each/3 {
				if err := gen.Burst(ctx, 256); err != nil {
					return err
				}
				sent += 256
			}
			return nil
		})
		if err != nil {
			return cost, 0, err
		}
		took[i], bytes[i] = cpu.Seconds()/float64(sent), float64(gen.MessageBytes())
		s, err := js.Stream(ctx, name)
		if err != nil {
			return cost, 0, fmt.Errorf("plan: a NATS stream to try: %w", err)
		}
		if i > 0 {
			write = max(1, (bytesWritten()-written)/float64(n)/float64(s.CachedInfo().State.Bytes))
		}
		// The stream itself stays until the server ends. A server removes its directory of
		// streams after the last stream is deleted, in the background: the next stream to be
		// created can lose that race, with error 10049 (nats-server 2.15.2).
		if err := s.Purge(ctx); err != nil {
			return cost, 0, fmt.Errorf("plan: a NATS stream to try: %w", err)
		}
	}
	return line(bytes, took), write, nil
}

// line is the cost that two sizes have shown.
func line(bytes, took [2]float64) linear {
	slope := max(0, (took[1]-took[0])/(bytes[1]-bytes[0]))
	return linear{Message: max(0, took[1]-slope*bytes[1]), Byte: slope}
}

// copying measures what it costs that three servers store a message: a cluster of three in
// this process, connected by TCP, takes the same messages for a NATS stream with one replica
// and for one with three.
func copying(ctx context.Context, p plant, channels []string, dir string, each time.Duration, r *measured) (err error) {
	all, err := startCluster(dir)
	defer func() {
		for _, s := range all {
			s.Shutdown()
			s.WaitForShutdown()
		}
	}()
	if err != nil {
		return fmt.Errorf("plan: three servers: %w", err)
	}
	nc, err := nats.Connect(all[0].ClientURL(), nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("plan: three servers: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(512))
	if err != nil {
		return err
	}
	one, _, err := storing(ctx, js, 1, p, channels, each)
	if err != nil {
		return err
	}
	three, write, err := storing(ctx, js, replicas, p, channels, each)
	if err != nil {
		return err
	}
	r.Write = write
	r.Costs.Copy = linear{Message: max(0, three.Message-one.Message) / replicas, Byte: max(0, three.Byte-one.Byte) / replicas}
	return nil
}

// inTime tries again until a cluster that has just begun can do it.
func inTime(ctx context.Context, f func(context.Context) error) error {
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

// bytesWritten is what this process has written to disks so far; 0 where that is not known.
func bytesWritten() (n float64) {
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	return fieldOf(string(b), "write_bytes:")
}
