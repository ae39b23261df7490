// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

const (

	// connectionQPS and connectionBurst bound the requests to one cluster, all of its releases together. A chart of
	// hundreds of objects needs the burst; API servers have their own fairness against the rest.
	connectionQPS   = 200
	connectionBurst = 400
	// coolDown is how long a connection keeps the discovered kinds after its last action. They take about half a megabyte
	// if no other cluster serves the same kinds.
	coolDown = 5 * time.Minute
	// maxImpersonated bounds the users of one cluster whose connections are kept; they are cheap to make.
	maxImpersonated = 100
)

// cluster is the state of one cluster between actions. It is safe for concurrent use.
type cluster struct {
	Identity [sha256.Size]byte
	// root is the path of the API server.
	root    string
	limiter flowcontrol.RateLimiter
	// bytes is what answers take their share of, as the owner.
	bytes *bytebudget.Budget
	Owner bytebudget.Owner
	Codec *records.Codec
	// Payloads is that of sharedKnowledge.
	Payloads *records.PayloadMemory
	// Observations are for the actions that follow.
	Observations *records.Observations
	// Namespaces are the namespaces that were seen.
	Namespaces *records.NameSet
	// Own is the connection as the user of the config.
	Own   *Connection
	Kinds *Kinds

	mu      sync.Mutex
	cooling *time.Timer
	// impersonated holds the connections as other users.
	impersonated map[string]*Connection
}

// Connection is a way to a cluster as one user. Connections of one cluster share the discovered kinds, the rate limit
// and, below the credentials, the network connections. It is safe for concurrent use.
type Connection struct {
	*cluster
	host      rest.Config
	transport http.RoundTripper
	// Core speaks protobuf, which has no base64 in it: records are large.
	Core     corev1client.CoreV1Interface
	Metadata metadata.Interface
	// user is the impersonated user, empty without impersonation.
	user string
}

// NewCluster returns the state of a cluster; it sends no request.
func NewCluster(key string, config *rest.Config, shared sharedKnowledge) (*cluster, error) {
	copied := rest.CopyConfig(config)
	// The deadline of one request is the transport's; a client's timeout would cut watches too.
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
		Payloads:     shared.Payloads,
		Observations: shared.observations,
		Namespaces:   records.NewNameSet(),
		impersonated: map[string]*Connection{},
	}
	if address, err := url.Parse(config.Host); err == nil {
		c.root = strings.TrimSuffix(address.Path, "/")
	}
	// Everything about TLS and credentials is in the transport.
	c.Own, err = newConnection(c, transport, rest.Config{
		Host:      config.Host,
		APIPath:   config.APIPath,
		UserAgent: model.UserAgent,
		// The transport limits the rate, below the read cache.
		RateLimiter:    flowcontrol.NewFakeAlwaysRateLimiter(),
		WarningHandler: rest.NoWarnings{},
	})
	if err != nil {
		return nil, err
	}
	if c.Kinds, err = newKinds(c.Own.host, c.bounded(context.Background(), transport), shared.library); err != nil {
		return nil, err
	}
	c.Kinds.learned = c.KeepWarm
	return c, nil
}

// ownerOf returns the owner of the memory for a cluster's responses, given the Key of its [model.Target].
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

// as returns the connection as a user, "" for the config's own.
func (c *cluster) as(user string) (*Connection, error) {
	if user == "" {
		return c.Own, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn, ok := c.impersonated[user]; ok {
		return conn, nil
	}
	// The first who sets the header decides: this one comes before one that the config may have.
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

// bounded puts the bounds of a cluster's requests around a transport; each request ends with ctx at the latest.
func (c *cluster) bounded(ctx context.Context, transport http.RoundTripper) *boundedTransport {
	return &boundedTransport{base: transport, parent: ctx, timeout: model.RequestTimeout, limiter: c.limiter,
		bytes: c.bytes, owner: c.Owner}
}

// RestConfig returns a config for clients; each request made with it ends with ctx at the latest.
func (c *Connection) RestConfig(ctx context.Context) *rest.Config {
	config := c.host
	bounded := c.bounded(ctx, c.transport)
	bounded.kindsChanged = c.forgetKinds
	config.Transport = bounded
	return &config
}

// ObservationKey returns the key of a release.
func (c *Connection) ObservationKey(namespace, name string) records.ObservationKey {
	return records.ObservationKey{Cluster: c.Identity, User: c.user, Namespace: namespace, Name: name}
}

// ActionConfig is like RestConfig, for the objects of one action: it does not ask twice in a row for the same object.
func (c *Connection) ActionConfig(ctx context.Context) *rest.Config {
	config := c.RestConfig(ctx)
	config.Transport = newReadCache(&helmerr.Refusals{Base: config.Transport}, c.root, c.Namespaces)
	return config
}

// LearnCapabilities returns the version and kinds that the cluster serves, not older than kindsTTL.
func (c *cluster) LearnCapabilities(log action.DebugLog) (*chartutil.Capabilities, error) {
	known, err := c.Kinds.current()
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

// KeepWarm postpones the time at which the discovered kinds are dropped.
func (c *cluster) KeepWarm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cooling == nil {
		c.cooling = time.AfterFunc(coolDown, c.Kinds.drop)
		return
	}
	c.cooling.Reset(coolDown)
}

// close frees the resources of the cluster. Running requests continue.
func (c *cluster) close() {
	c.mu.Lock()
	if c.cooling != nil {
		c.cooling.Stop()
	}
	c.mu.Unlock()
	utilnet.CloseIdleConnectionsFor(c.Own.transport)
}

// configIdentity returns a digest of a config's address, credentials and functions, which identifies the config.
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
