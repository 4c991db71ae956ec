package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/producer"
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
	server, err := natsserver.Start(ctx, natsserver.Options{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	dial := func(_ context.Context, name string) (*nats.Conn, error) { return server.Connect(name, nil) }

	ready, ended := make(chan struct{}), make(chan error, 1)
	stage := &pipeline.Worker{
		Job: pipeline.Job{
			Config: pipeline.Config{Job: "pumps", Partitions: 2},
			Model:  model,
			Dial:   dial,
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

	conn, err := dial(ctx, "example")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	_, err = producer.Publisher{Channels: model.Channels}.Publish(ctx, conn, producer.FromSlice([]producer.Item{
		{Stream: "pump-1", X: []float32{3, 5, 4, 6}, End: true},
		{Stream: "pump-2", X: []float32{8, 5, 3, 1}, End: true},
	}))
	if err != nil {
		log.Fatal(err)
	}

	js, err := jetstream.New(conn)
	if err != nil {
		log.Fatal(err)
	}
	all, classes := errors.New("all there"), map[string]string{}
	err = consumer.Predictions(ctx, js, "pumps", 1, func(o consumer.Output) error {
		for _, p := range o.Predictions {
			classes[p.Stream] = o.Meta.Labels[p.Class]
		}
		if len(classes) == 2 {
			return all
		}
		return nil
	})
	if err != all {
		log.Fatal(err)
	}
	stop()
	fmt.Println(<-ended, classes["pump-1"], classes["pump-2"])
	// Output: <nil> rising falling
}
