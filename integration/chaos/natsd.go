//go:build linux

package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"
)

// natsServerCommand is the hidden first argument that makes this binary a
// NATS server.
const natsServerCommand = "nats-server"

// natsServer runs a NATS server until SIGTERM. The settings are those of a stock
// server, except for the file store and the loopback addresses.
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
