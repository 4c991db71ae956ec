package pipeline_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/client"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/classify"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// The stage inside a Go program: it trains a model, runs the stage on an embedded
// server, publishes two streams and reads their predictions.
func ExampleWorker_Run() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	series := [][]float32{{0, 1, 2, 3, 4}, {2, 4, 5, 7, 9}, {9, 6, 4, 3, 1}, {5, 4, 2, 1, 0}}
	model, err := classify.Train(ctx, reservoir.DefaultBank(1), series, []string{"rising", "rising", "falling", "falling"})
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "nats")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	srv, err := server.NewServer(&server.Options{JetStream: true, StoreDir: dir, Port: server.RANDOM_PORT, NoSigs: true})
	if err != nil {
		log.Fatal(err)
	}
	srv.Start()
	defer srv.WaitForShutdown()
	defer srv.Shutdown()
	if !srv.ReadyForConnections(time.Minute) {
		log.Fatal("the server is not ready")
	}

	ready, ended := make(chan struct{}), make(chan error, 1)
	stage := &pipeline.Worker{
		Job: pipeline.Job{
			Config: pipeline.Config{Job: "pumps", Partitions: 2},
			Model:  model,
			Dial: func(_ context.Context, name string) (*nats.Conn, error) {
				return nats.Connect(srv.ClientURL(), nats.Name(name))
			},
			NewEngine: func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
				return cpu.New(net, slots, cpu.Options{Threads: 1})
			},
		},
		Ready: func() { close(ready) },
	}
	go func() { ended <- stage.Run(ctx) }()
	select {
	case <-ready:
	case err := <-ended:
		log.Fatal(err)
	}

	c, err := client.Connect(ctx, client.Options{URL: srv.ClientURL(), Job: "pumps", Channels: model.Channels})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range []client.Samples{
		{Stream: "pump-1", X: []float32{3, 5, 4, 6}, End: true},
		{Stream: "pump-2", X: []float32{8, 5, 3, 1}, End: true},
	} {
		if err := c.Publish(ctx, s); err != nil {
			log.Fatal(err)
		}
	}
	classes := map[string]string{}
	for p, err := range c.Predictions(ctx, client.ReadOptions{From: 1}) {
		if err != nil {
			log.Fatal(err)
		}
		if classes[p.Stream] = p.Class; len(classes) == 2 {
			break
		}
	}
	if err := c.Close(ctx); err != nil {
		log.Fatal(err)
	}
	stop()
	fmt.Println(<-ended, classes["pump-1"], classes["pump-2"])
	// Output: <nil> rising falling
}
