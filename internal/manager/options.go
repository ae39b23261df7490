// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/flags"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/tracing"
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
	page                 bool

	extensionPort    int
	extensionCertDir string
	extensionCA      string

	artifactDir      string
	artifactMaxBytes int64
	registry         registryOptions
	records          recordOptions
	rendering        renderingOptions
	tracing          tracing.Options
}

// recordOptions are the flags for the storage of records.
type recordOptions struct {
	url             string
	formerURLs      []string
	credentialsFile string
	insecure        bool
}

// registryOptions are the flags for access to registries.
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
	addKubeconfigFlag(fs)
	fs.BoolVar(&o.leaderElect, "leader-elect", false,
		"Elect a leader among several managers, so that only one is active. Without leader election, run only one manager.")
	fs.DurationVar(&o.leaderElectLeaseDuration, "leader-elect-lease-duration", 15*time.Second,
		"Time after which the lease of an unresponsive leader expires.")
	fs.DurationVar(&o.leaderElectRenewDeadline, "leader-elect-renew-deadline", 10*time.Second,
		"Time for which a leader tries to renew its lease before it exits. It must be less than the lease duration.")
	fs.DurationVar(&o.leaderElectRetryPeriod, "leader-elect-retry-period", 2*time.Second,
		"Time between attempts to acquire or renew the lease.")
	fs.StringVar(&o.leaderElectNamespace, "leader-elect-namespace", "",
		"Namespace of the lease (default: the namespace of the pod). It is required outside of a cluster.")
	fs.DurationVar(&o.gracefulShutdownTimeout, "graceful-shutdown-timeout", 60*time.Second,
		"Time that running Helm actions have to finish when the manager stops. "+
			"The next manager recovers an action that was interrupted.")
	fs.StringVar(&o.namespace, "namespace", "",
		"Namespace to reconcile (default: all namespaces).")
	fs.StringSliceVar(&o.managementCluster, "management-cluster-namespaces", nil,
		"Namespaces whose HelmOps may install in the management cluster itself (default: none). "+
			"They impersonate a ServiceAccount of their namespace; the manager needs the right to impersonate it.")
	fs.StringVar(&o.watchFilter, "watch-filter", "",
		fmt.Sprintf("Reconcile only HelmOps whose label %s has this value (default: all HelmOps).", clusterv1.WatchLabel))
	fs.StringVar(&o.shard, "shard", "",
		fmt.Sprintf("Reconcile only HelmOps and Clusters whose label %s has this value "+
			"(default: those without the label).", addonsv1.ShardLabel))
	fs.IntVar(&o.helmOpConcurrency, "helmop-concurrency", 5,
		"Number of HelmOps to reconcile concurrently.")
	fs.IntVar(&o.releaseConcurrency, "helmoprelease-concurrency", 24,
		"Number of releases to reconcile concurrently. One eighth of the workers is reserved for status checks. One "+
			"namespace can use three quarters of those that others do not use, and one HelmOp three quarters of that.")
	fs.IntVar(&o.clusterConcurrency, "cluster-concurrency", 4,
		"Number of Helm actions to run concurrently in one Cluster.")
	fs.DurationVar(
		&o.syncPeriod,
		"sync-period",
		10*time.Minute,
		"Interval at which every object is reconciled without an event. Each release causes one small request to its "+
			"cluster.",
	)
	fs.Float32Var(&o.kubeAPIQPS, "kube-api-qps", 100,
		"Maximum requests per second to the API server of the management cluster, for each kind of object.")
	fs.IntVar(&o.kubeAPIBurst, "kube-api-burst", 200,
		"Maximum burst of requests to the API server of the management cluster, for each kind of object.")
	fs.StringVar(&o.healthAddr, "health-addr", ":9440",
		"Address on which /healthz and /readyz are served.")
	fs.StringVar(&o.artifactDir, "artifact-dir", "/var/cache/helmop",
		"Writable directory in which pulled artifacts are cached. Its content may be lost.")
	fs.Int64Var(&o.artifactMaxBytes, "artifact-max-bytes", 1<<30,
		"Maximum size of the cache of pulled artifacts, in bytes. Least recently used artifacts are removed first.")
	o.addExtensionFlags(fs)
	o.registry.addFlags(fs)
	o.records.addFlags(fs)
	o.rendering.addFlags(fs)
	addTracingFlags(fs, &o.tracing)
	o.addDiagnosticFlags(fs)
	fs.IntVar(&o.gcPercent, "gc-percent", defaultPercent,
		"Growth of the heap since the last garbage collection, in percent, that starts the next one (GOGC). "+
			"Lower values save memory and cost CPU time. At rest, the manager uses at most 15 for values up to 25.")
	fs.BoolVar(&o.allowLocal, "allow-local-addresses", false,
		"Allow loopback, link-local and unspecified addresses for the registries and proxies of HelmOps and the API servers "+
			"of kubeconfigs, and loopback addresses for the revocation services of certificates. "+
			"Registries in --registries-file and --record-storage-url are always allowed.")
	fs.Int64Var(
		&o.memoryLimit,
		"memory-limit",
		0,
		"Memory limit of the container, in bytes (default: the environment variable MEMORY_LIMIT, which the Deployment "+
			"sets). The manager limits its heap and the data that it reads concurrently to fit, and reserves memory for "+
			"rendering charts. The environment variable GOMEMLIMIT takes precedence for the heap. "+
			"Without a limit, data that is read concurrently may use 512 MiB.",
	)
}

// addExtensionFlags adds the flags of the Runtime Extension.
func (o *Options) addExtensionFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.extensionPort, "runtime-extension-port", 0,
		"Port on which the Runtime Extension for Cluster API is served, with TLS. "+
			"0 does not serve it. It needs an ExtensionConfig, and the feature gate RuntimeSDK of Cluster API.")
	fs.StringVar(&o.extensionCertDir, "runtime-extension-cert-dir", "/etc/helmop/runtime-extension",
		"Directory with the certificate tls.crt and the key tls.key of the Runtime Extension. They are reloaded when they "+
			"change.")
	fs.StringVar(&o.extensionCA, "runtime-extension-client-ca", "",
		"File in --runtime-extension-cert-dir with the CA of Cluster API's client certificate, see its flag "+
			"--runtime-extension-client-cert-file. It is read again for each connection. Clients without such a certificate "+
			"are refused. Empty accepts all clients.")
}

// addDiagnosticFlags adds the flags for the server at --diagnostics-address.
func (o *Options) addDiagnosticFlags(fs *pflag.FlagSet) {
	flags.AddManagerOptions(fs, &o.diagnostics)
	fs.BoolVar(&o.page, "enable-page", false,
		"Serve a page that shows the fleet at --diagnostics-address, under /ui/. Users need the right to get /ui/*, and "+
			"then see all HelmOps and Clusters that the manager sees.")
	fs.IntVar(&o.mutexProfileFraction, "mutex-profile-fraction", 0,
		"Record one of this many mutex contentions for the profile at --diagnostics-address. 0 records none.")
}

// addKubeconfigFlag adds the flag --kubeconfig. controller-runtime reads its value.
func addKubeconfigFlag(fs *pflag.FlagSet) {
	kubeconfig := pflag.PFlagFromGoFlag(flag.CommandLine.Lookup(config.KubeconfigFlagName))
	kubeconfig.Usage = "Path of a kubeconfig of the management cluster (default: the file that the environment variable " +
		"KUBECONFIG names, the ServiceAccount of the pod, or $HOME/.kube/config)."
	fs.AddFlag(kubeconfig)
}

func addTracingFlags(fs *pflag.FlagSet, o *tracing.Options) {
	fs.StringVar(&o.Endpoint, "tracing-endpoint", "",
		"URL of a collector that serves OTLP by gRPC, http://HOST:PORT or, with TLS, https://HOST:PORT "+
			"(default: no traces are exported).")
	fs.Float64Var(&o.Ratio, "tracing-sample-ratio", 1,
		"Part of the traces that is exported, from 0 to 1. A trace is exported completely or not at all.")
}

func (o *recordOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(
		&o.url,
		"record-storage-url",
		"",
		"Repository, oci://HOST/PATH, in which release records are stored encrypted (default: they are stored in the "+
			"workload clusters). spec.storage of a HelmOp takes precedence.",
	)
	fs.StringSliceVar(&o.formerURLs, "record-storage-former-urls", nil,
		"Former values of --record-storage-url. Records there are read and cleaned up, with the same credentials.")
	fs.StringVar(&o.credentialsFile, "record-storage-credentials-file", "/etc/helmop/record-storage/.dockerconfigjson",
		"Docker configuration (config.json) with credentials that can pull, push and delete at --record-storage-url and "+
			"--record-storage-former-urls. It is read for each use and may be missing.")
	fs.BoolVar(&o.insecure, "record-storage-insecure", false,
		"Use HTTP instead of HTTPS for --record-storage-url.")
}

func (o *registryOptions) addFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.timeout, "registry-timeout", 30*time.Second,
		"Time limit for a registry's response to a request. Workers do not wait for the response.")
	fs.StringVar(&o.credentialsFile, "registry-credentials-file", "/etc/helmop/registry-credentials/.dockerconfigjson",
		"Docker configuration (config.json) with default credentials for HelmOps without credentials of their own. "+
			"It is reloaded when it changes and may be missing.")
	fs.StringVar(&o.caFile, "registry-ca-file", "/etc/helmop/registries/ca.crt",
		"File with PEM certificates of CAs to trust for all registries, in addition to the system's CAs. "+
			"It is reloaded when it changes and may be missing.")
	fs.StringVar(&o.registriesFile, "registries-file", "/etc/helmop/registries/registries.conf",
		"File with registry mirrors, in the format of containers-registries.conf(5), version 2. "+
			"It is reloaded when it changes and may be missing.")
	fs.StringSliceVar(&o.tokenHosts, "registry-token-hosts", nil,
		"Token services (host[:port]) with private addresses that registries with other host names may use.")
	fs.DurationVar(
		&o.minInterval,
		"min-source-interval",
		30*time.Second,
		"Minimum interval at which a HelmOp resolves its tag or version range. A shorter spec.source.interval is raised "+
			"to it.",
	)
	fs.Float64Var(&o.requestsPerSecond, "registry-requests-per-second", 50,
		"Maximum requests per second to one registry. Bursts may be twice as large.")
	fs.IntVar(&o.maxRequests, "registry-max-requests", 8,
		"Maximum concurrent requests to one registry.")
}

// Validate returns an error if a flag is invalid.
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
	case o.page && o.diagnostics.InsecureDiagnostics:
		return errors.New("--enable-page needs the authentication that --insecure-diagnostics turns off")
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
	case o.extensionPort < 0 || o.extensionPort > 65535:
		return errors.New("--runtime-extension-port must be a port, or 0")
	case o.extensionCA != "" && filepath.Base(o.extensionCA) != o.extensionCA:
		return errors.New("--runtime-extension-client-ca must be the name of a file, without its folder")
	case o.shard != "" && len(validation.IsDNS1123Label(o.shard)) > 0:
		return errors.New(
			"--shard must consist of at most 63 lower-case letters, digits and '-', and start and end with a letter or a digit")
	default:
		return errors.Join(o.validateManagementCluster(), o.records.validate(), o.rendering.validate(), o.validateTracing())
	}
}

func (o *Options) validateTracing() error {
	if err := o.tracing.Validate(); err != nil {
		return fmt.Errorf("--tracing-endpoint and --tracing-sample-ratio: %w", err)
	}
	return nil
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
			return fmt.Errorf("--management-cluster-namespaces: %q is not a valid name of a namespace", namespace)
		}
	}
	return nil
}
