// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

// cachedDiscovery returns the known kinds to Helm and its builders.
type cachedDiscovery struct {
	// DiscoveryInterface sends requests to the cluster for data that is not cached, such as schemas.
	discovery.DiscoveryInterface
	kinds *Kinds
}

// discovery returns the discovery client for the known kinds.
func (k *Kinds) discovery() discovery.CachedDiscoveryInterface {
	return &cachedDiscovery{DiscoveryInterface: k.live, kinds: k}
}

// Fresh implements discovery.CachedDiscoveryInterface. The mapper itself runs discovery again for unknown kinds.
func (d *cachedDiscovery) Fresh() bool { return true }

// Invalidate implements discovery.CachedDiscoveryInterface.
func (d *cachedDiscovery) Invalidate() { d.kinds.Invalidate() }

// ServerVersion implements discovery.DiscoveryInterface.
func (d *cachedDiscovery) ServerVersion() (*version.Info, error) {
	known, err := d.kinds.lookup()
	if err != nil {
		return nil, err
	}
	return known.version, nil
}

// ServerGroups implements discovery.DiscoveryInterface.
func (d *cachedDiscovery) ServerGroups() (*metav1.APIGroupList, error) {
	known, err := d.kinds.lookup()
	if err != nil {
		return nil, err
	}
	list := &metav1.APIGroupList{}
	for _, group := range known.groups {
		list.Groups = append(list.Groups, *group)
	}
	return list, nil
}

// ServerGroupsAndResources implements discovery.DiscoveryInterface.
func (d *cachedDiscovery) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	known, err := d.kinds.lookup()
	if err != nil {
		return nil, nil, err
	}
	return known.groups, known.resources, known.partial
}

// ServerResourcesForGroupVersion implements discovery.DiscoveryInterface.
func (d *cachedDiscovery) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	known, err := d.kinds.lookup()
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(known.resources,
		func(list *metav1.APIResourceList) bool { return list.GroupVersion == groupVersion })
	if at < 0 {
		return nil, memory.ErrCacheNotFound
	}
	return known.resources[at], nil
}

// ServerPreferredResources implements discovery.DiscoveryInterface.
func (d *cachedDiscovery) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	return discovery.ServerPreferredResources(d)
}

// ServerPreferredNamespacedResources implements discovery.DiscoveryInterface.
func (d *cachedDiscovery) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	return discovery.ServerPreferredNamespacedResources(d)
}

// kindsMapper maps known kinds. If a kind is unknown, it runs discovery again, because the kind may have been added
// meanwhile.
type kindsMapper struct{ kinds *Kinds }

// Mapper returns a mapper from kinds to resources. For an unknown kind, it runs discovery again, but at most once in
// UnknownKindInterval.
func (k *Kinds) Mapper() meta.ResettableRESTMapper { return kindsMapper{kinds: k} }

// mapped calls lookUp. If the kind is unknown, it calls lookUp again after discovery. If the discovery of the kind's
// group failed, the error says that the API service does not respond, not that the kind does not exist.
func mapped[T any](k *Kinds, lookUp func(meta.RESTMapper) (T, error)) (T, error) {
	known, err := k.lookup()
	if err != nil {
		var none T
		return none, err
	}
	found, err := lookUp(known.mapper)
	if !meta.IsNoMatchError(err) {
		return found, err
	}
	if newer, discoverErr := k.rediscoverUnknown(known); discoverErr == nil && newer != known {
		known = newer
		found, err = lookUp(known.mapper)
	}
	if unresponsive := known.unresponsive(err); unresponsive != nil {
		return found, unresponsive
	}
	return found, err
}

// unresponsive returns an error if the unmapped kind is in a group whose API service did not respond. The cluster may
// serve the kind in any version, and objects of the kind may exist.
func (k *knownKinds) unresponsive(err error) error {
	var kind *meta.NoKindMatchError
	var resource *meta.NoResourceMatchError
	var group, what string
	switch {
	case errors.As(err, &kind):
		group = kind.GroupKind.Group
		version := ""
		if len(kind.SearchedVersions) > 0 {
			version = kind.SearchedVersions[0]
		}
		what = fmt.Sprintf("%s of %s", kind.GroupKind.Kind, schema.GroupVersion{Group: group, Version: version})
	case errors.As(err, &resource):
		group, what = resource.PartialResource.Group, resource.PartialResource.String()
	default:
		return nil
	}
	failed, _ := discovery.GroupDiscoveryFailedErrorGroups(k.partial)
	ofGroup := map[schema.GroupVersion]error{}
	for version, why := range failed {
		if version.Group == group {
			ofGroup[version] = why
		}
	}
	if len(ofGroup) == 0 {
		return nil
	}
	return &unresponsiveGroupError{what: what, failed: &discovery.ErrGroupDiscoveryFailed{Groups: ofGroup}}
}

// unresponsiveGroupError means that an API service does not respond, so it is unknown whether the cluster serves a
// kind. Its kind is ErrUnreachable. The kind is also recognized from its text alone.
type unresponsiveGroupError struct {
	what   string
	failed *discovery.ErrGroupDiscoveryFailed
}

func (e *unresponsiveGroupError) Error() string {
	return fmt.Sprintf("cannot discover whether the cluster serves %s: %s", e.what, e.failed)
}

func (e *unresponsiveGroupError) Unwrap() []error {
	return []error{e.failed, helmerr.New(helmerr.ErrUnreachable, "%s", e)}
}

// IsUnmapped reports whether an error of a lookup means that the cluster does not serve a kind yet.
func IsUnmapped(err error) bool {
	var unresponsive *unresponsiveGroupError
	return meta.IsNoMatchError(err) || errors.As(err, &unresponsive)
}

// rediscoverUnknown runs discovery because of an unknown kind, unless it did so within UnknownKindInterval. It returns
// the result, or the known kinds without discovery. If discovery fails, the known kinds stay valid.
func (k *Kinds) rediscoverUnknown(known *knownKinds) (*knownKinds, error) {
	k.Mu.Lock()
	recent := k.known == known && k.flight == nil && k.Now().Sub(k.UnknownAt) < UnknownKindInterval
	k.Mu.Unlock()
	if recent {
		return known, nil
	}
	newer, err := k.get(func(newer *knownKinds) bool { return newer != known })
	k.Mu.Lock()
	defer k.Mu.Unlock()
	// The interval starts after discovery, because discovery may take longer than the interval.
	k.UnknownAt = k.Now()
	return newer, err
}

// Reset implements meta.ResettableRESTMapper.
func (m kindsMapper) Reset() { m.kinds.Invalidate() }

// KindFor implements meta.RESTMapper.
func (m kindsMapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return mapped(m.kinds, func(mapper meta.RESTMapper) (schema.GroupVersionKind,
		error) {
		return mapper.KindFor(resource)
	})
}

// KindsFor implements meta.RESTMapper.
func (m kindsMapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return mapped(m.kinds, func(mapper meta.RESTMapper) ([]schema.GroupVersionKind,
		error) {
		return mapper.KindsFor(resource)
	})
}

// ResourceFor implements meta.RESTMapper.
func (m kindsMapper) ResourceFor(input schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return mapped(m.kinds, func(mapper meta.RESTMapper) (schema.GroupVersionResource,
		error) {
		return mapper.ResourceFor(input)
	})
}

// ResourcesFor implements meta.RESTMapper.
func (m kindsMapper) ResourcesFor(input schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return mapped(m.kinds, func(mapper meta.RESTMapper) ([]schema.GroupVersionResource,
		error) {
		return mapper.ResourcesFor(input)
	})
}

// RESTMapping implements meta.RESTMapper.
func (m kindsMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return mapped(m.kinds, func(mapper meta.RESTMapper) (*meta.RESTMapping,
		error) {
		return mapper.RESTMapping(kind, versions...)
	})
}

// RESTMappings implements meta.RESTMapper.
func (m kindsMapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return mapped(m.kinds, func(mapper meta.RESTMapper) ([]*meta.RESTMapping, error) {
		return mapper.RESTMappings(kind, versions...)
	})
}

// ResourceSingularizer implements meta.RESTMapper.
func (m kindsMapper) ResourceSingularizer(resource string) (string, error) {
	return mapped(m.kinds, func(mapper meta.RESTMapper) (string, error) { return mapper.ResourceSingularizer(resource) })
}
