// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	clienttransport "k8s.io/client-go/transport"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/recordcodec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

const (
	// connectionQPS bounds the requests per second to one cluster, for all releases together.
	connectionQPS = 200
	// connectionBurst bounds a burst of requests to one cluster. A chart with hundreds of objects needs such a burst. The
	// API server protects its other clients with its own priority and fairness.
	connectionBurst = 400
	// kindsRetention is how long a cluster keeps the discovered kinds after its last action. They take about half a
	// megabyte, unless another cluster serves the same kinds.
	kindsRetention = 5 * time.Minute
	// maxImpersonated bounds the cached connections of one cluster with impersonation. A new connection is cheap.
	maxImpersonated = 100
)

// cluster is the state of one cluster between actions. It is safe for concurrent use.
type cluster struct {
	Identity [sha256.Size]byte
	// root is the path of the API server.
	root    string
	limiter flowcontrol.RateLimiter
	// bytes is the memory budget that responses share; nil if there is no bound.
	bytes *bytebudget.Budget
	// Owner is the owner to whom the memory for responses is charged.
	Owner bytebudget.Owner
	Codec *recordcodec.Codec
	// Observations caches observations for the actions that follow.
	Observations *records.Observations
	// Namespaces holds the namespaces that are known to exist.
	Namespaces *records.NameSet
	// Newest is the newest state of the cluster that a list of records has returned.
	Newest NewestVersion
	// Existing holds the releases whose installations must read all objects first, because some exist already.
	Existing *records.NameSet
	// Own is the connection with the user of the config.
	Own   *Connection
	Kinds *Kinds

	mu sync.Mutex
	// retention is the timer that frees the discovered kinds.
	retention *time.Timer
	// impersonated holds the connections with impersonated users.
	impersonated map[string]*Connection
}

// Connection is a connection to a cluster with one user. Connections to one cluster share the discovered kinds and the
// rate limit. They also share the network connections, which are the same for all credentials. It is safe for
// concurrent use.
type Connection struct {
	*cluster
	host      rest.Config
	transport http.RoundTripper
	// Core uses protobuf, because records are large and protobuf needs no base64.
	Core     corev1client.CoreV1Interface
	Metadata metadata.Interface
	// user is the impersonated user; empty without impersonation.
	user string
}

// NewCluster returns the state of a cluster; it sends no request.
func NewCluster(key string, config *rest.Config, shared sharedState) (*cluster, error) {
	copied := rest.CopyConfig(config)
	// The transport sets a deadline for each request, so the client has no timeout. A timeout of the client would also end
	// watches.
	copied.Timeout = 0
	copied.UserAgent = model.UserAgent
	transport, err := rest.TransportFor(copied)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	c := &cluster{
		Identity:     configIdentity(config),
		limiter:      flowcontrol.NewTokenBucketRateLimiter(connectionQPS, connectionBurst),
		bytes:        shared.bytes,
		Owner:        ownerOf(key),
		Codec:        shared.codec,
		Observations: shared.observations,
		Namespaces:   records.NewNameSet(),
		Existing:     records.NewNameSet(),
		impersonated: map[string]*Connection{},
	}
	if address, err := url.Parse(config.Host); err == nil {
		c.root = strings.TrimSuffix(address.Path, "/")
	}
	// The transport has the settings for TLS and the credentials.
	c.Own, err = newConnection(c, transport, rest.Config{
		Host:      config.Host,
		APIPath:   config.APIPath,
		UserAgent: model.UserAgent,
		// The transport limits the rate, after the read cache.
		RateLimiter:    flowcontrol.NewFakeAlwaysRateLimiter(),
		WarningHandler: rest.NoWarnings{},
	})
	if err != nil {
		return nil, err
	}
	if c.Kinds, err = newKinds(c.Own.host, c.bounded(context.Background(), transport), shared.library); err != nil {
		return nil, err
	}
	c.Kinds.discovered = c.RetainKinds
	return c, nil
}

// ownerOf returns the owner to whom the memory for a cluster's responses is charged. The argument is the Key of its
// [model.Target].
func ownerOf(key string) bytebudget.Owner {
	tenant, _, found := strings.Cut(key, "/")
	if !found {
		tenant = ""
	}
	return bytebudget.Owner{Tenant: tenant, Host: key}
}

func newConnection(c *cluster, transport http.RoundTripper, host rest.Config) (conn *Connection, err error) {
	conn = &Connection{cluster: c, host: host, transport: transport}
	own := conn.RestConfig(context.Background())
	binary := rest.CopyConfig(own)
	binary.ContentType = runtime.ContentTypeProtobuf
	binary.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if conn.Core, err = corev1client.NewForConfig(binary); err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	if conn.Metadata, err = metadata.NewForConfig(own); err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return conn, nil
}

// as returns the connection with an impersonated user; an empty user means the user of the config.
func (c *cluster) as(user string) (*Connection, error) {
	if user == "" {
		return c.Own, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn, ok := c.impersonated[user]; ok {
		return conn, nil
	}
	// The first transport that sets the header decides. This transport runs before the transport of the config.
	transport := clienttransport.NewImpersonatingRoundTripper(clienttransport.ImpersonationConfig{UserName: user},
		c.Own.transport)
	conn, err := newConnection(c, transport, c.Own.host)
	if err != nil {
		return nil, err
	}
	conn.user = user
	if len(c.impersonated) >= maxImpersonated {
		clear(c.impersonated)
	}
	c.impersonated[user] = conn
	return conn, nil
}

// bounded adds the deadline, the rate limit and the size limits of a cluster to a transport. ctx bounds each request.
func (c *cluster) bounded(ctx context.Context, transport http.RoundTripper) *boundedTransport {
	return &boundedTransport{base: transport, parent: ctx, timeout: model.RequestTimeout, limiter: c.limiter,
		bytes: c.bytes, owner: c.Owner}
}

// RestConfig returns a config for clients. ctx bounds each request.
func (c *Connection) RestConfig(ctx context.Context) *rest.Config {
	config := c.host
	config.Transport = c.boundedAsUser(ctx)
	return &config
}

// boundedAsUser returns the transport of RestConfig.
func (c *Connection) boundedAsUser(ctx context.Context) *boundedTransport {
	bounded := c.bounded(ctx, c.transport)
	bounded.kindsChanged = c.forgetKinds
	return bounded
}

// ObservationKey returns the key of a release in Observations.
func (c *Connection) ObservationKey(namespace, name string) records.ObservationKey {
	return records.ObservationKey{Cluster: c.Identity, User: c.user, Namespace: namespace, Name: name}
}

// Records returns the store of Helm's records in a namespace. It calls beforeCreate before it creates a record.
func (c *Connection) Records(ctx context.Context, namespace string, storage model.Storage, beforeCreate func() error,
) *records.Store {
	return records.NewStore(ctx, records.StoreOptions{
		Client:    c.Core.RESTClient(),
		Metadata:  c.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace),
		Namespace: namespace,
		Storage:   storage,
		Codec:     c.Codec,
		Names:     c.Namespaces,
		Observed: func(release string) ([]metav1.PartialObjectMetadata, bool) {
			return c.Observations.Take(c.ObservationKey(namespace, release))
		},
		BeforeCreate: beforeCreate,
	})
}

// ActionConfig returns a config for the clients of one action; ctx bounds each request. In addition to RestConfig, it
// has a cache for repeated reads of an object.
func (c *Connection) ActionConfig(ctx context.Context) *rest.Config {
	config := c.host
	config.Transport = c.actionReads(ctx)
	return &config
}

// actionReads returns the transport of ActionConfig.
func (c *Connection) actionReads(ctx context.Context) *readCache {
	bounded := c.boundedAsUser(ctx)
	bounded.metersWatches = true
	return newReadCache(&helmerr.Refusals{Base: bounded}, c.root, c.Namespaces, c.Kinds.Now)
}

// Capabilities returns the version and the kinds that the cluster serves. The result is not older than kindsTTL, except
// with anyAge.
func (c *cluster) Capabilities(anyAge bool, log action.DebugLog) (*chartutil.Capabilities, error) {
	known, err := c.Kinds.current(anyAge)
	if err != nil {
		return nil, err
	}
	if known.partial != nil {
		log("an API service of the cluster does not respond: %s", known.partial)
	}
	return known.capabilities.Copy(), nil
}

// forgetKinds makes the next action discover the kinds again.
func (c *cluster) forgetKinds() { c.Kinds.expire() }

// RetainKinds keeps the discovered kinds for kindsRetention from now on.
func (c *cluster) RetainKinds() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retention == nil {
		c.retention = time.AfterFunc(kindsRetention, c.Kinds.drop)
		return
	}
	c.retention.Reset(kindsRetention)
}

// close frees the resources of the cluster. Running requests continue.
func (c *cluster) close() {
	c.mu.Lock()
	if c.retention != nil {
		c.retention.Stop()
	}
	c.mu.Unlock()
	c.Kinds.drop()
	utilnet.CloseIdleConnectionsFor(c.Own.transport)
}

// configIdentity returns a digest that identifies a config: its address, credentials and functions. Each read of a
// release needs it, so the certificates and keys are hashed as they are, each after its length.
func configIdentity(config *rest.Config) [sha256.Size]byte {
	hash := sha256.New()
	tls := config.TLSClientConfig
	for _, text := range []string{config.Host, config.APIPath, config.Username, config.Password, config.BearerToken,
		config.BearerTokenFile, tls.ServerName, tls.CertFile, tls.KeyFile, tls.CAFile, string(tls.CertData),
		string(tls.KeyData), string(tls.CAData)} {
		fmt.Fprintf(hash, "%d ", len(text))
		_, _ = io.WriteString(hash, text)
	}
	fmt.Fprintf(hash, " %t %q %q %q %q %q", tls.Insecure, tls.NextProtos, config.Impersonate.UserName,
		config.Impersonate.UID, config.Impersonate.Groups, config.Impersonate.Extra)
	for _, function := range []any{config.Transport, config.WrapTransport, config.Dial, config.Proxy} {
		fmt.Fprintf(hash, " %x", functionPointer(function))
	}
	var identity [sha256.Size]byte
	hash.Sum(identity[:0])
	return identity
}

// functionPointer returns the address of a function or pointer; zero for nil and for other values.
func functionPointer(value any) uintptr {
	reflected := reflect.ValueOf(value)
	switch reflected.Kind() {
	case reflect.Func, reflect.Pointer:
		return reflected.Pointer()
	default:
		return 0
	}
}
