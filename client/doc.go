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
// Publish joins the samples of a stream into messages and numbers the messages,
// so that the stage counts no message twice and detects each missing message.
// Publish returns before the samples are stored: Flush returns when all are
// stored, and Options.Stored reports each message. Samples that the server does
// not accept wait, and are resent; when Options.Buffer samples wait, Publish
// waits too, until its context ends. No sample is dropped. If the process ends,
// samples not yet stored are lost: so call Close, or resend them.
//
// With Options.Resume a restarted client continues exactly: resend all samples
// from a certainly stored sample on, and the client skips the samples in the
// input. The times identify the samples.
//
// A stream is named by its key: the tokens for the wildcards of the job's input
// subject (Options.Subject), joined by dots. With plant.*.line.* the stream of
// plant.A.line.3 is "A.3"; with the default, sensors.*, the key is one token.
//
// Label stores the observed class of a sequence, or of the samples of a time.
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
