package client_test

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

// A client publishes the samples of two pumps and reads their predictions.
func Example() {
	ctx := context.Background()
	url, end := startStage(ctx) // elsewhere: eusn-stream run
	defer end()

	c, err := client.Connect(ctx, client.Options{URL: url, Job: "pumps", Channels: []string{"c0"}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)
	for _, s := range []client.Samples{
		{Stream: "pump-1", X: []float32{3, 5}},
		{Stream: "pump-2", X: []float32{8, 5, 3, 1}, End: true}, // the sequence ends: predict
		{Stream: "pump-1", X: []float32{4, 6}, End: true},
	} {
		if err := c.Publish(ctx, s); err != nil {
			log.Fatal(err)
		}
	}
	if err := c.Flush(ctx); err != nil { // all is stored now
		log.Fatal(err)
	}
	// An operator labels the state of pump-1, for the next training.
	if err := c.Label(ctx, client.Label{Stream: "pump-1", From: 1, To: 2, Class: "rising", Who: "anna"}); err != nil {
		log.Fatal(err)
	}
	classes := map[string]string{}
	for p, err := range c.Predictions(ctx, client.ReadOptions{From: 1}) {
		if err != nil {
			log.Fatal(err)
		}
		classes[p.Stream] = p.Class
		if len(classes) == 2 {
			break
		}
	}
	fmt.Println(classes["pump-1"], classes["pump-2"])
	// Output: rising falling
}

// startStage trains a model and runs a stage on an embedded server.
func startStage(ctx context.Context) (url string, end func()) {
	series := [][]float32{{0, 1, 2, 3, 4}, {2, 4, 5, 7, 9}, {9, 6, 4, 3, 1}, {5, 4, 2, 1, 0}}
	model, err := classify.Train(ctx, reservoir.DefaultBank(1), series, []string{"rising", "rising", "falling", "falling"})
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "nats")
	if err != nil {
		log.Fatal(err)
	}
	srv, err := server.NewServer(&server.Options{JetStream: true, StoreDir: dir, Port: server.RANDOM_PORT, NoSigs: true})
	if err != nil {
		log.Fatal(err)
	}
	srv.Start()
	if !srv.ReadyForConnections(time.Minute) {
		log.Fatal("the server is not ready")
	}
	ctx, stop := context.WithCancel(ctx)
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
	return srv.ClientURL(), func() {
		stop()
		<-ended
		srv.Shutdown()
		srv.WaitForShutdown()
		os.RemoveAll(dir)
	}
}

// An operator inspects a machine, and labels its state at the prediction.
func ExampleLabelOf() {
	p := &client.Prediction{Stream: "pump-1", Seq: 7, Row: 2, Class: "healthy"}
	l := client.LabelOf(p, "bearing worn", "anna")
	fmt.Printf("%s, message %d, row %d: %s, says %s\n", l.Stream, l.Seq, l.Row, l.Class, l.Who)
	// Output: pump-1, message 7, row 2: bearing worn, says anna
}
