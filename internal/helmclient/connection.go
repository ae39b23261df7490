/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/flowcontrol"
)

const (
	// userAgent is what this package is called in the clusters' audit logs.
	userAgent = "helmop"
	// connectionQPS and connectionBurst bound the requests to one cluster, all of its releases together. A chart of
	// hundreds of objects needs the burst; API servers have their own fairness against the rest.
	connectionQPS   = 50
	connectionBurst = 100
	// kindsTTL is how long the kinds that a cluster serves are taken for known. It spans a burst of charts on a
	// new cluster. Kinds that appear by this package's own doing are seen at once; a chart which only asks whether a
	// kind exists may miss, for this long, one that came otherwise.
	kindsTTL = time.Minute
	// coolDown is how long after its last action a connection keeps what it learned about the cluster's kinds,
	// about half a megabyte.
	coolDown = 5 * time.Minute
)

// connection is what is kept about one cluster between actions. It is safe for concurrent use.
type connection struct {
	identity  [sha256.Size]byte
	host      rest.Config
	transport http.RoundTripper
	secrets   kubernetes.Interface
	metadata  metadata.Interface
	discovery discovery.CachedDiscoveryInterface
	mapper    *retryingMapper

	mu           sync.Mutex
	capabilities *chartutil.Capabilities
	learnedAt    time.Time
	cooling      *time.Timer
}

// newConnection returns a connection; it sends no request.
func newConnection(config *rest.Config) (*connection, error) {
	copied := rest.CopyConfig(config)
	// The deadline of one request is the transport's; a client's timeout would cut watches too.
	copied.Timeout = 0
	copied.UserAgent = userAgent
	transport, err := rest.TransportFor(copied)
	if err != nil {
		return nil, fmt.Errorf("cluster connection: %w", err)
	}
	c := &connection{
		identity:  configIdentity(config),
		transport: transport,
		// Everything about TLS and credentials is in the transport.
		host: rest.Config{
			Host:           config.Host,
			APIPath:        config.APIPath,
			UserAgent:      userAgent,
			RateLimiter:    flowcontrol.NewTokenBucketRateLimiter(connectionQPS, connectionBurst),
			WarningHandler: rest.NoWarnings{},
		},
	}
	own := c.restConfig(context.Background())
	if c.secrets, err = kubernetes.NewForConfig(own); err != nil {
		return nil, fmt.Errorf("cluster connection: %w", err)
	}
	if c.metadata, err = metadata.NewForConfig(own); err != nil {
		return nil, fmt.Errorf("cluster connection: %w", err)
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("cluster connection: %w", err)
	}
	c.discovery = memory.NewMemCacheClient(discoveryClient)
	c.mapper = &retryingMapper{ResettableRESTMapper: restmapper.NewDeferredDiscoveryRESTMapper(c.discovery)}
	return c, nil
}

// restConfig returns a config for clients; each request made with it ends with ctx at the latest.
func (c *connection) restConfig(ctx context.Context) *rest.Config {
	config := c.host
	config.Transport = &boundedTransport{
		base:         c.transport,
		parent:       ctx,
		timeout:      requestTimeout,
		kindsChanged: c.forgetKinds,
	}
	return &config
}

// learnCapabilities returns what the cluster serves, asked for again after kindsTTL.
func (c *connection) learnCapabilities(now time.Time, log action.DebugLog) (*chartutil.Capabilities, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.capabilities != nil && now.Sub(c.learnedAt) < kindsTTL {
		return c.capabilities.Copy(), nil
	}
	// This drops what discovery has cached, too.
	c.mapper.Reset()
	version, err := c.discovery.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's version: %w", err)
	}
	apiVersions, err := action.GetVersionSet(c.discovery)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("reading the cluster's API versions: %w", err)
	}
	if err != nil {
		log("an API service of the cluster does not answer: %s", err)
	}
	c.capabilities = &chartutil.Capabilities{
		APIVersions: apiVersions,
		KubeVersion: chartutil.KubeVersion{Version: version.GitVersion, Major: version.Major, Minor: version.Minor},
		HelmVersion: chartutil.DefaultCapabilities.HelmVersion,
	}
	c.learnedAt = now
	return c.capabilities.Copy(), nil
}

// forgetKinds makes the next action ask the cluster again what it serves.
func (c *connection) forgetKinds() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.capabilities = nil
}

// keepWarm puts off the moment when what is known of the cluster's kinds is dropped.
func (c *connection) keepWarm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cooling == nil {
		c.cooling = time.AfterFunc(coolDown, c.cool)
		return
	}
	c.cooling.Reset(coolDown)
}

func (c *connection) cool() {
	c.forgetKinds()
	c.mapper.Reset()
}

// close frees what the connection holds. Requests under way go on.
func (c *connection) close() {
	c.mu.Lock()
	if c.cooling != nil {
		c.cooling.Stop()
	}
	c.mu.Unlock()
	utilnet.CloseIdleConnectionsFor(c.transport)
}

// configIdentity tells configs of one cluster apart: by address, credentials and functions.
func configIdentity(config *rest.Config) [sha256.Size]byte {
	hash := sha256.New()
	fmt.Fprintf(hash, "%q %q %q %q %q %q", config.Host, config.APIPath, config.Username, config.Password,
		config.BearerToken, config.BearerTokenFile)
	tls := config.TLSClientConfig
	fmt.Fprintf(hash, " %t %q %q %q %q %q %q %q %q", tls.Insecure, tls.ServerName, tls.CertFile, tls.KeyFile, tls.CAFile,
		tls.CertData, tls.KeyData, tls.CAData, tls.NextProtos)
	fmt.Fprintf(hash, " %q %q %q %q", config.Impersonate.UserName, config.Impersonate.UID, config.Impersonate.Groups,
		config.Impersonate.Extra)
	for _, function := range []any{config.Transport, config.WrapTransport, config.Dial, config.Proxy} {
		fmt.Fprintf(hash, " %x", functionPointer(function))
	}
	var identity [sha256.Size]byte
	hash.Sum(identity[:0])
	return identity
}

// functionPointer returns the address behind a function or pointer, zero for nil and everything else.
func functionPointer(value any) uintptr {
	reflected := reflect.ValueOf(value)
	switch reflected.Kind() {
	case reflect.Func, reflect.Pointer:
		return reflected.Pointer()
	default:
		return 0
	}
}
