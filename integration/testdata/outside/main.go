// Program outside uses the public packages as another module does: it trains a model, runs a
// worker, publishes, reads predictions, and trains again from an archive.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/client"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/classify"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	ctx, stop := context.WithCancel(context.Background())
	dir, err := os.MkdirTemp("", "outside")
	must(err)
	defer os.RemoveAll(dir)

	// Train from slices, save, load, and predict a slice and a stream.
	series := [][]float32{{0, 1, 2, 3, 4}, {2, 4, 5, 7, 9}, {9, 6, 4, 3, 1}, {5, 4, 2, 1, 0}}
	labels := []string{"rising", "rising", "falling", "falling"}
	model, err := classify.Train(ctx, reservoir.DefaultBank(1), series, labels)
	must(err)
	path := filepath.Join(dir, "m.safetensors")
	must(model.Save(path))
	model, err = reservoir.Load(path)
	must(err)
	answers, err := classify.Predict(ctx, model, series)
	must(err)
	for _, a := range answers {
		fmt.Print(model.Readouts[0].Classes[a.Class], " ")
	}
	stream, err := classify.NewStream(model)
	must(err)
	must(stream.Step(3, 5, 4, 6))
	fmt.Println(stream.Classify())

	// Run a worker with its own configuration, and use it with a client.
	srv, err := server.NewServer(&server.Options{JetStream: true, StoreDir: dir, Port: server.RANDOM_PORT, NoSigs: true})
	must(err)
	srv.Start()
	srv.ReadyForConnections(time.Minute)
	cfg := pipeline.Config{Job: "pumps", Partitions: 2, InputSubject: "plant.*", NonFinite: "hold"}
	cfg.Input.Format = "auto"
	must(cfg.Validate())
	var counters pipeline.Counters
	ready, ended := make(chan struct{}), make(chan error, 1)
	w := &pipeline.Worker{Job: pipeline.Job{
		Config: cfg, Model: model,
		Dial: func(_ context.Context, name string) (*nats.Conn, error) {
			return nats.Connect(srv.ClientURL(), nats.Name(name))
		},
		NewEngine: func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
			return cpu.New(net, slots, cpu.Options{})
		},
	}, Counters: &counters, NewPartitions: pipeline.EmbeddedPartitions, Ready: func() { close(ready) }}
	go func() { ended <- w.Run(ctx) }()
	<-ready

	c, err := client.Connect(ctx, client.Options{URL: srv.ClientURL(), Job: "pumps", Subject: "plant.*", Channels: model.Channels})
	must(err)
	must(c.Publish(ctx, client.Samples{Stream: "p1", X: []float32{3, 5, 4, 6}, End: true}))
	must(c.Flush(ctx))
	for p, err := range c.Predictions(ctx, client.ReadOptions{From: 1}) {
		must(err)
		fmt.Println(p.Stream, p.Class, *p.Probability, p.Integrity)
		break
	}
	must(c.Close(ctx))
	fmt.Println(counters.Stats().Predictions, counters.Status().Partitions[0].Phase)
	stop()
	must(<-ended)
	srv.Shutdown()

	// Train from a Parquet archive, with groups left out together.
	ctx = context.Background()
	d := &archive.Dataset{Name: "v", Channels: []string{"x"}, Classes: []string{"falling", "rising"}}
	for i := range 40 {
		s := archive.Series{ID: fmt.Sprintf("m%d-%d", i%4, i), Split: archive.Train, Label: i / 2 % 2}
		if i >= 24 {
			s.Split = archive.Test
		}
		for t := range 20 {
			s.Values = append(s.Values, float32(i)+float32(t*(2*s.Label-1)))
		}
		d.Series = append(d.Series, s)
	}
	file := filepath.Join(dir, "v.parquet")
	must(archive.WriteDataset(file, d))
	d, err = archive.ReadDataset(file)
	must(err)
	next, report, err := offline.Retrain(ctx, d, offline.RetrainOptions{Coverage: .8, Groups: "^(m.)-"}, nil)
	must(err)
	ev, err := offline.Evaluate(ctx, next, d, offline.EvaluateOptions{Groups: "^(m.)-"}, nil)
	must(err)
	fmt.Println(report.Sequences, report.ByGroup.Accuracy, ev.Accuracy, ev.Sets.Coverage, ev.ByGroup.Groups[0].Group, ev.Numbers == nil)
}
