//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	loopback     = "127.0.0.1"
	serverStart  = 30 * time.Second // of one node; recovery of a small store takes well under a second
	clusterStart = 60 * time.Second // with elections
)

// cluster is a single NATS server or three.
type cluster struct {
	dir   string
	procs *children
	nodes []*node
	extra []string // arguments for every server
	owner []string // command of a worker with an embedded server; nil = none
	env   []string // of the embedding worker
	disks bool     // each server has an image file for its store

	mu sync.Mutex // one kill at a time, so that three nodes keep their quorum
}

type node struct {
	name        string
	port, route int
	proc        *proc
}

func newCluster(procs *children, dir string, n int) (*cluster, error) {
	c := &cluster{dir: dir, procs: procs}
	ports, err := freePorts(2 * n)
	if err != nil {
		return nil, err
	}
	for i := range n {
		c.nodes = append(c.nodes, &node{name: fmt.Sprintf("n%d", i), port: ports[2*i], route: ports[2*i+1]})
	}
	return c, nil
}

// freePorts finds ports below the kernel's range for outgoing connections, so that no
// outgoing connection takes the port of a dead server.
func freePorts(n int) ([]int, error) {
	var ports []int
	for try := 0; len(ports) < n; try++ {
		p := 10000 + rand.IntN(20000)
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(p)))
		if err == nil {
			defer l.Close() // held until all are found, so that all differ
			ports = append(ports, p)
		} else if try > 1000 {
			return nil, fmt.Errorf("chaos: no free port on %s: %w", loopback, err)
		}
	}
	return ports, nil
}

func (n *node) address() string { return net.JoinHostPort(loopback, strconv.Itoa(n.port)) }

func (c *cluster) url() string {
	var all []string
	for _, n := range c.nodes {
		all = append(all, "nats://"+n.address())
	}
	return strings.Join(all, ",")
}

func (c *cluster) args(n *node) []string {
	if c.owner != nil {
		return append(slices.Clone(c.owner), "--dir", filepath.Join(c.dir, n.name), "--port", strconv.Itoa(n.port))
	}
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	args := []string{self, natsServerCommand, "--name", n.name, "--dir", filepath.Join(c.dir, n.name), "--port", strconv.Itoa(n.port)}
	args = append(args, c.extra...)
	if c.disks {
		args = append(args, "--image", c.createImage(n))
	}
	if len(c.nodes) > 1 {
		var routes []string
		for _, m := range c.nodes {
			routes = append(routes, "nats-route://"+net.JoinHostPort(loopback, strconv.Itoa(m.route)))
		}
		args = append(args, "--cluster-port", strconv.Itoa(n.route), "--routes", strings.Join(routes, ","))
	}
	return args
}

// startNode starts a node and returns when the node accepts connections.
func (c *cluster) startNode(n *node) error {
	var err error
	for late := time.Now().Add(serverStart); time.Now().Before(late); time.Sleep(50 * time.Millisecond) {
		if n.proc == nil || n.proc.hasEnded() {
			var own uintptr
			if c.disks {
				own = syscall.CLONE_NEWNS
			}
			if n.proc, err = c.procs.startIn(own, n.name, c.env, c.args(n)...); err != nil {
				return err
			}
		}
		conn, dialErr := net.DialTimeout("tcp", n.address(), time.Second)
		if dialErr == nil {
			conn.Close()
			return nil
		}
		err = dialErr
	}
	return fmt.Errorf("chaos: server %s accepts no connection within %v (see its log): %w", n.name, serverStart, err)
}

// startAll starts every node and waits until JetStream answers.
func (c *cluster) startAll(ctx context.Context) (*nats.Conn, error) {
	for _, n := range c.nodes {
		if err := c.startNode(n); err != nil {
			return nil, err
		}
	}
	nc, err := connectHarness(c.url())
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	return nc, c.awaitHealthy(ctx, js)
}

// connectHarness connects the harness to the servers, without proxies.
func connectHarness(url string) (*nats.Conn, error) {
	return nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond), nats.RetryOnFailedConnect(true), nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // lost connections are expected here
}

// awaitHealthy returns when JetStream answers and, in a cluster, has a full set of
// current replicas.
func (c *cluster) awaitHealthy(ctx context.Context, js jetstream.JetStream) error {
	return c.retry(ctx, func() error { return c.checkServers(ctx, js, true) })
}

// awaitLeaders returns when JetStream answers and every NATS stream has a leader. A
// replica may lag: after a power loss of servers with unsynced data, a replica lagged
// permanently.
func (c *cluster) awaitLeaders(ctx context.Context, js jetstream.JetStream) error {
	return c.retry(ctx, func() error { return c.checkServers(ctx, js, false) })
}

func (c *cluster) retry(ctx context.Context, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, clusterStart)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("chaos: JetStream is not healthy after %v: %w", clusterStart, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (c *cluster) checkServers(ctx context.Context, js jetstream.JetStream, replicas bool) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := js.AccountInfo(ctx); err != nil {
		return err
	}
	streams := js.ListStreams(ctx)
	for info := range streams.Info() {
		if info.Cluster == nil || len(c.nodes) == 1 {
			continue
		}
		if info.Cluster.Leader == "" {
			return fmt.Errorf("%s has no leader", info.Config.Name)
		}
		for _, r := range info.Cluster.Replicas {
			if replicas && (!r.Current || r.Offline) {
				return fmt.Errorf("%s: replica %s lags", info.Config.Name, r.Name)
			}
		}
	}
	if err := streams.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return err
	}
	return nil
}

// leaderOf returns the index of the leader node of a NATS stream; -1 if unknown.
func (c *cluster) leaderOf(ctx context.Context, js jetstream.JetStream, stream string) int {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	if err != nil || s.CachedInfo().Cluster == nil {
		return -1
	}
	for i, n := range c.nodes {
		if n.name == s.CachedInfo().Cluster.Leader {
			return i
		}
	}
	return -1
}

// crashNode kills a node, restarts the node after down and, in a cluster, returns when
// the node has caught up.
func (c *cluster) crashNode(ctx context.Context, js jetstream.JetStream, i int, down time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[i]
	n.proc.kill()
	if !n.proc.wasKilled() {
		return fmt.Errorf("chaos: server %s had ended by itself: %s", n.name, n.proc.exitStatus())
	}
	time.Sleep(down)
	if err := c.startNode(n); err != nil {
		return err
	}
	if len(c.nodes) == 1 {
		return nil
	}
	return c.awaitHealthy(ctx, js)
}

// stopAll stops the servers cleanly.
func (c *cluster) stopAll() {
	for _, n := range c.nodes {
		if n.proc != nil {
			n.proc.stop(10 * time.Second)
		}
	}
}

// natsServerCommand is the hidden first argument that makes this binary a
// NATS server.
const natsServerCommand = "nats-server"

// natsServer runs a NATS server until SIGTERM. The settings are the defaults, except for
// the file store and the loopback addresses.
func natsServer(args []string) int {
	f := flag.NewFlagSet(natsServerCommand, flag.ContinueOnError)
	name := f.String("name", "n0", "")
	dir := f.String("dir", "", "")
	port := f.Int("port", 0, "")
	clusterPort := f.Int("cluster-port", 0, "0 = no cluster")
	routes := f.String("routes", "", "")
	payload := f.Int("max-payload", 0, "bytes; 0 = a stock server's")
	always := f.Bool("sync-always", false, "fsync before each acknowledgement")
	image := f.String("image", "", "file system to mount at dir; this process has a mount namespace of its own")
	if f.Parse(args) != nil {
		return 2
	}
	if *image != "" {
		if err := mountImage(*image, *dir); err != nil {
			fmt.Fprintln(os.Stderr, "nats-server:", err)
			return 1
		}
	}
	o := &server.Options{
		ServerName: *name, Host: loopback, Port: *port, JetStream: true, StoreDir: *dir,
		NoSigs: true, Logtime: true, MaxPayload: int32(*payload), SyncAlways: *always,
	}
	if *clusterPort > 0 {
		// NoAdvertise: clients must not learn addresses that bypass their proxies.
		o.Cluster = server.ClusterOpts{Name: "chaos", Host: loopback, Port: *clusterPort, NoAdvertise: true}
		o.Routes = server.RoutesFromStr(*routes)
	}
	ns, err := server.NewServer(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "nats-server:", err)
		return 1
	}
	ns.ConfigureLogger()
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	ns.Start()
	<-term
	ns.Shutdown()
	ns.WaitForShutdown()
	return 0
}
