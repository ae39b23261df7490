// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/flags"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
)

// Options are the flags of the manager.
type Options struct {
	diagnostics flags.ManagerOptions

	leaderElect              bool
	leaderElectLeaseDuration time.Duration
	leaderElectRenewDeadline time.Duration
	leaderElectRetryPeriod   time.Duration
	leaderElectNamespace     string
	gracefulShutdownTimeout  time.Duration

	namespace          string
	watchFilter        string
	managementCluster  []string
	shard              string
	helmOpConcurrency  int
	releaseConcurrency int
	clusterConcurrency int
	syncPeriod         time.Duration
	kubeAPIQPS         float32
	kubeAPIBurst       int
	healthAddr         string

	mutexProfileFraction int
	gcPercent            int
	memoryLimit          int64
	allowLocal           bool

	artifactDir      string
	artifactMaxBytes int64
	registry         registryOptions
	records          recordOptions
	rendering        renderingOptions
}

// recordOptions are the flags that say where records of releases are kept.
type recordOptions struct {
	url             string
	formerURLs      []string
	credentialsFile string
	insecure        bool
}

// registryOptions are the flags that say how registries are reached.
type registryOptions struct {
	timeout           time.Duration
	credentialsFile   string
	caFile            string
	registriesFile    string
	tokenHosts        []string
	requestsPerSecond float64
	maxRequests       int
	minInterval       time.Duration
}

// AddFlags adds the flags to a flag set and sets their defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.leaderElect, "leader-elect", false,
		"Elect a leader, so that of several managers one is at work. Without it, run one manager only.")
	fs.DurationVar(&o.leaderElectLeaseDuration, "leader-elect-lease-duration", 15*time.Second,
		"How long a leader that does not answer keeps the lead.")
	fs.DurationVar(&o.leaderElectRenewDeadline, "leader-elect-renew-deadline", 10*time.Second,
		"How long a leader tries to renew its lease before it exits. Must be less than the lease duration.")
	fs.DurationVar(&o.leaderElectRetryPeriod, "leader-elect-retry-period", 2*time.Second,
		"How long to wait between tries to get or renew the lease.")
	fs.StringVar(&o.leaderElectNamespace, "leader-elect-namespace", "",
		"Namespace of the lease. Default: the namespace of the pod; must be set outside of a cluster.")
	fs.DurationVar(&o.gracefulShutdownTimeout, "graceful-shutdown-timeout", 60*time.Second,
		"How long a Helm action that runs may take to end when the manager is told to stop. One that takes longer is taken up again by the next manager.")
	fs.StringVar(&o.namespace, "namespace", "",
		"Namespace to work on. Default: all namespaces.")
	fs.StringSliceVar(&o.managementCluster, "management-cluster-namespaces", nil,
		"Namespaces whose HelmOps may install in the management cluster itself, each as a ServiceAccount of its namespace that the manager may impersonate. Default: none.")
	fs.StringVar(&o.watchFilter, "watch-filter", "",
		fmt.Sprintf("Work on HelmOps whose label %s has this value only. Default: on all.", clusterv1.WatchLabel))
	fs.StringVar(&o.shard, "shard", "",
		fmt.Sprintf("Serve the HelmOps and Clusters whose label %s has this value only. Default: those without the label.", addonsv1.ShardLabel))
	fs.IntVar(&o.helmOpConcurrency, "helmop-concurrency", 5,
		"Number of HelmOps to work on at the same time.")
	fs.IntVar(&o.releaseConcurrency, "helmoprelease-concurrency", 24,
		"Number of releases to work on at the same time. An eighth of them only look; one namespace gets at most three quarters, and one HelmOp three quarters of that.")
	fs.IntVar(&o.clusterConcurrency, "cluster-concurrency", 4,
		"Number of Helm actions to run in one Cluster at the same time. With 1, they run one after the other.")
	fs.DurationVar(&o.syncPeriod, "sync-period", 10*time.Minute,
		"How often every object is looked at though nothing happened. A release costs its cluster one small read then.")
	fs.Float32Var(&o.kubeAPIQPS, "kube-api-qps", 100,
		"Requests per second to the API server of the management cluster, for each kind of object.")
	fs.IntVar(&o.kubeAPIBurst, "kube-api-burst", 200,
		"Requests to the API server of the management cluster that may be sent at once, for each kind of object.")
	fs.StringVar(&o.healthAddr, "health-addr", ":9440",
		"Address of /healthz and /readyz.")
	fs.StringVar(&o.artifactDir, "artifact-dir", "/var/cache/helmop",
		"Directory of the store of pulled artifacts. It must be writable; what is in it may be lost.")
	fs.Int64Var(&o.artifactMaxBytes, "artifact-max-bytes", 1<<30,
		"Size of the store of pulled artifacts, in bytes. What was used least recently is dropped first.")
	o.registry.addFlags(fs)
	o.records.addFlags(fs)
	o.rendering.addFlags(fs)
	flags.AddManagerOptions(fs, &o.diagnostics)
	fs.IntVar(&o.gcPercent, "gc-percent", 25,
		"How much garbage there may be beside what is in use, in percent, before it is collected. The manager is mostly idle, with connections to many Clusters, so memory counts for more than the CPU time of collecting more often.")
	fs.BoolVar(&o.allowLocal, "allow-local-addresses", false,
		"Let HelmOps name registries and proxies, and kubeconfigs API servers, at loopback, link-local and unspecified addresses. Registries that --registries-file or --record-storage-url name are allowed anyway.")
	fs.Int64Var(&o.memoryLimit, "memory-limit", 0,
		"Memory that the container may use, in bytes. The manager keeps its heap and what it reads at the same time below that, with room for the processes that render charts. An environment variable GOMEMLIMIT takes precedence for the heap. Default: the environment variable MEMORY_LIMIT, which the Deployment sets; without it, what is read at the same time is bounded to 512 MiB.")
	fs.IntVar(&o.mutexProfileFraction, "mutex-profile-fraction", 0,
		"Record one in so many contentions of mutexes for the profile at --diagnostics-address. Default: none.")
}

func (o *recordOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.url, "record-storage-url", "",
		"Repository (oci://<host>/<path>) in which the records of releases are kept, encrypted, unless spec.storage of a HelmOp says otherwise. Default: they are kept in the workload clusters.")
	fs.StringSliceVar(&o.formerURLs, "record-storage-former-urls", nil,
		"Repositories that --record-storage-url was before: records that are there are read, and cleaned up, with the same credentials.")
	fs.StringVar(&o.credentialsFile, "record-storage-credentials-file", "/etc/helmop/record-storage/.dockerconfigjson",
		"Docker configuration (config.json) with the credentials for --record-storage-url and the former ones, which must allow to pull, push and delete. Read whenever it is needed; it need not exist.")
	fs.BoolVar(&o.insecure, "record-storage-insecure", false,
		"Speak plain HTTP to the registry of --record-storage-url.")
}

func (o *registryOptions) addFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.timeout, "registry-timeout", 30*time.Second,
		"How long a registry may take to answer a request. No worker waits for it that long.")
	fs.StringVar(&o.credentialsFile, "registry-credentials-file", "/etc/helmop/registry-credentials/.dockerconfigjson",
		"Docker configuration (config.json) with credentials for HelmOps that have none for their repository. Read again when it changes; it need not exist.")
	fs.StringVar(&o.caFile, "registry-ca-file", "/etc/helmop/registries/ca.crt",
		"PEM certificates of authorities that are trusted for every registry, beside those of the system. Read again when it changes; it need not exist.")
	fs.StringVar(&o.registriesFile, "registries-file", "/etc/helmop/registries/registries.conf",
		"Mirrors, in the form of containers-registries.conf(5), version 2. Read again when it changes; it need not exist.")
	fs.StringSliceVar(&o.tokenHosts, "registry-token-hosts", nil,
		"Hosts (host[:port]) whose token services may be used by registries of another name though their addresses are private ones.")
	fs.DurationVar(&o.minInterval, "min-source-interval", 30*time.Second,
		"Shortest time after which a HelmOp resolves its tag or range again. A shorter spec.source.interval counts as this.")
	fs.Float64Var(&o.requestsPerSecond, "registry-requests-per-second", 50,
		"Requests per second to one registry; twice as many may be sent at once.")
	fs.IntVar(&o.maxRequests, "registry-max-requests", 8,
		"Requests to one registry that may be under way at the same time.")
}

// Validate tells what is wrong with the flags.
func (o *Options) Validate() error {
	switch {
	case o.helmOpConcurrency < 1, o.releaseConcurrency < 1, o.clusterConcurrency < 1:
		return errors.New("--helmop-concurrency, --helmoprelease-concurrency and --cluster-concurrency must be at least 1")
	case o.syncPeriod < time.Second:
		return errors.New("--sync-period must be at least 1s")
	case o.artifactMaxBytes < 1<<20:
		return errors.New("--artifact-max-bytes must be at least 1048576 (1 MiB)")
	case o.gcPercent < 1:
		return errors.New("--gc-percent must be at least 1")
	case o.mutexProfileFraction < 0:
		return errors.New("--mutex-profile-fraction must not be negative")
	case o.registry.timeout <= 0:
		return errors.New("--registry-timeout must be more than 0s")
	case o.registry.requestsPerSecond <= 0:
		return errors.New("--registry-requests-per-second must be more than 0")
	case o.registry.minInterval < 0:
		return errors.New("--min-source-interval must not be negative")
	case o.registry.maxRequests < 1:
		return errors.New("--registry-max-requests must be at least 1")
	case o.leaderElectLeaseDuration < time.Second:
		return errors.New("--leader-elect-lease-duration must be at least 1s")
	case o.shard != "" && len(validation.IsDNS1123Label(o.shard)) > 0:
		return errors.New("--shard must consist of at most 63 lower-case letters, digits and '-', and begin and end with a letter or a digit")
	default:
		return errors.Join(o.validateManagementCluster(), o.records.validate(), o.rendering.validate())
	}
}

func (o *recordOptions) validate() error {
	urls := o.formerURLs
	if o.url != "" {
		urls = append([]string{o.url}, urls...)
	}
	for _, url := range urls {
		if err := oci.ValidateRepository(url); err != nil {
			return fmt.Errorf("--record-storage-url and --record-storage-former-urls: %w", err)
		}
	}
	return nil
}

func (o *Options) validateManagementCluster() error {
	for _, namespace := range o.managementCluster {
		if len(validation.IsDNS1123Label(namespace)) > 0 {
			return fmt.Errorf("--management-cluster-namespaces: %q is no name of a namespace", namespace)
		}
	}
	return nil
}
