package pipelinetest

import (
	"fmt"
	"net"
	"net/url"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// Trio starts a cluster of three servers in this process, named n0, n1 and n2, and
// returns their URLs. The cluster may not have elected its leaders yet.
func Trio(t testing.TB) (urls []string) {
	t.Helper()
	var ports, routes [3]int
	var peers []*url.URL
	for i := range 3 {
		var held []net.Listener
		for _, p := range []*int{&ports[i], &routes[i]} {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, l)
			*p = l.Addr().(*net.TCPAddr).Port
		}
		for _, l := range held {
			l.Close()
		}
		peers = append(peers, &url.URL{Scheme: "nats-route", Host: fmt.Sprintf("127.0.0.1:%d", routes[i])})
	}
	for i := range 3 {
		ns, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: ports[i], JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
			Cluster: server.ClusterOpts{Name: "trio", Host: "127.0.0.1", Port: routes[i]}, Routes: peers,
		})
		if err != nil {
			t.Fatal(err)
		}
		ns.Start()
		t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", ports[i]))
	}
	return urls
}
