// The program takes spans with the OpenTelemetry Collector's own OTLP receiver, of the
// version in go.mod, and writes each request that it has taken as a line of OTLP's JSON.
// It stands for a collector in tests, and is a module of its own so that nothing of it
// is a dependency of eusn-stream.
//
//	collector ADDRESS FILE
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "want an address to listen on, and a file to write")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address, name string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	set := map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": address}}}
	if err := confmap.NewFromStringMap(set).Unmarshal(config); err != nil {
		return err
	}
	var mu sync.Mutex
	sink, err := consumer.NewTraces(func(_ context.Context, t ptrace.Traces) error {
		line, err := new(ptrace.JSONMarshaler).MarshalTraces(t)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		_, err = f.Write(append(line, '\n'))
		return err
	})
	if err != nil {
		return err
	}
	settings := receiver.Settings{ID: component.NewID(factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings()}
	r, err := factory.CreateTraces(ctx, settings, config, sink)
	if err != nil {
		return err
	}
	if err := r.Start(ctx, componenttest.NewNopHost()); err != nil {
		return err
	}
	fmt.Println("listening")
	<-ctx.Done()
	return r.Shutdown(context.Background())
}
