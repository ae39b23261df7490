// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Command controllers runs the controllers of kube-controller-manager that clusters without nodes need. Upstream's own
// command adds controllers for volumes, nodes and quotas. These would add 280 packages that no other program of the
// test bed compiles.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file with the access to the cluster, as its administrator")
	names := flag.String("controllers", "", "names of the controllers, separated by commas; default: all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *names); err != nil {
		fmt.Fprintln(os.Stderr, "controllers:", err)
		os.Exit(1)
	}
}

// run runs controllers until the context ends.
func run(ctx context.Context, kubeconfig, names string) error {
	selected, err := choose(names)
	if err != nil {
		return err
	}
	c, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	var loops []func()
	for _, name := range selected {
		loop, err := controllers[name](ctx, c)
		if err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
		loops = append(loops, loop)
	}
	c.informers.Start(ctx.Done())
	close(c.started)
	var running sync.WaitGroup
	for _, loop := range loops {
		running.Go(loop)
	}
	running.Wait()
	return nil
}

// choose splits a list with commas into names. For an empty list, it returns all names.
func choose(names string) ([]string, error) {
	if names == "" {
		return slices.Sorted(maps.Keys(controllers)), nil
	}
	selected := strings.Split(names, ",")
	for _, name := range selected {
		if controllers[name] == nil {
			return nil, fmt.Errorf("there is no controller %q", name)
		}
	}
	return selected, nil
}

// cluster is what the controllers of a cluster share.
type cluster struct {
	client    kubernetes.Interface
	metadata  metadata.Interface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	informers informers.SharedInformerFactory

	// started is closed when the informers have started.
	started chan struct{}
}

// resync is the period after which informers report all objects again.
const resync = 12 * time.Hour

func connect(kubeconfig string) (*cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	// The test bed is the only client, so no limit of requests is needed.
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	ofMetadata, err := metadata.NewForConfig(rest.CopyConfig(config))
	if err != nil {
		return nil, err
	}
	return &cluster{
		client: client, metadata: ofMetadata,
		mapper:    restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery())),
		informers: informers.NewSharedInformerFactory(client, resync),
		started:   make(chan struct{}),
	}, nil
}
