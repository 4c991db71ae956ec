// Package client is for Go programs that send samples to a stage and read its
// predictions: a sensor, a gateway, a dashboard, an alarm. The stage runs
// elsewhere (eusn-stream run). The whole program:
//
//	c, err := client.Connect(ctx, client.Options{URL: "nats://127.0.0.1:4222", Channels: []string{"x", "y", "z"}})
//	if err != nil {
//		return err
//	}
//	defer c.Close(ctx)
//	err = c.Publish(ctx, client.Samples{Stream: "pump-1", X: []float32{.1, .2, .3}})
//	for p, err := range c.Predictions(ctx, client.ReadOptions{}) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(p.Stream, p.Class, p.Integrity)
//	}
//
// Publish joins the samples of a stream into messages and numbers them, so that
// the stage counts no message twice and notices each that is missing. It returns
// before they are stored: Flush returns when they are, and Options.Stored tells
// of each message. Samples that the server does not take wait, and are sent
// again; when Options.Buffer of them wait, Publish waits too, until its context
// ends. None is dropped. What was taken and not stored is lost if the process
// ends: so Close, or send it again.
//
// With Options.Resume a client that was killed continues exactly: send again
// everything from some sample that is certainly stored, and the client leaves
// out what the input has. It tells samples by their times.
//
// A stream is named by its key: what the wildcards of the job's input subject
// stand for (Options.Subject), joined by dots. With plant.*.line.* the stream of
// plant.A.line.3 is "A.3"; with the default, sensors.*, it is one token.
//
// Label stores what somebody says that a sequence, or the samples of a time, were.
//
// Samples.Trace passes a trace on. In a program with OpenTelemetry:
//
//	carrier := propagation.MapCarrier{}
//	otel.GetTextMapPropagator().Inject(ctx, carrier)
//	err := c.Publish(ctx, client.Samples{Stream: "pump-1", X: x, Trace: carrier})
//
// The protocol is in docs/reference.md.
//
// # Files
//
//   - client.go: publishes samples and labels
//   - prediction.go: reads predictions
package client
