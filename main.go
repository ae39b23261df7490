// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// The manager of HelmOp: it installs Helm charts from OCI registries in the workload clusters of Cluster API.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/manager"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/version"
)

func main() {
	// The manager renders charts in child processes that run the same binary.
	sandbox.Serve(rendering.Tasks(), bundle.Tasks())
	options, logOptions := &manager.Options{}, logs.NewOptions()
	fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	fs.Usage = func() {
		fmt.Fprintf(os.Stderr,
			"Install Helm charts from OCI registries in the workload clusters of Cluster API.\n\nFlags:\n%s", fs.FlagUsages())
	}
	printVersion := fs.Bool("version", false, "Print the version and exit.")
	options.AddFlags(fs)
	logsv1.AddFlags(logOptions, fs)
	switch err := fs.Parse(os.Args[1:]); {
	case errors.Is(err, pflag.ErrHelp):
		return
	case err != nil:
		exit(2, err)
	}
	if *printVersion {
		fmt.Println(version.String())
		return
	}
	if err := options.Validate(); err != nil {
		exit(2, err)
	}
	if err := logsv1.ValidateAndApply(logOptions, nil); err != nil {
		exit(2, err)
	}
	ctrl.SetLogger(klog.Background())
	// The Helm SDK writes warnings that quote values to the standard logger.
	helmerr.SilenceHelm()
	if err := manager.Run(ctrl.SetupSignalHandler(), options); err != nil {
		klog.Background().Error(err, "The manager stopped with an error")
		klog.Flush()
		os.Exit(1)
	}
	klog.Flush()
}

func exit(code int, err error) {
	fmt.Fprintf(os.Stderr, "manager: %v\nSee \"manager --help\" for the flags.\n", err)
	os.Exit(code)
}
