package main

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// deployer keeps one Deployment per Widget and reports when it is available: the shape of most operators. It
// leaves all cleaning up to the garbage collector of the server under test.
type deployer struct{ client.Client }

func (r *deployer) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var w Widget
	if err := r.Get(ctx, req.NamespacedName, &w); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !w.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	labels := map[string]string{"widget": w.Name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "widget-" + w.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, d, func() error {
		d.Spec.Replicas = &w.Spec.Size
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		d.Spec.Template.Labels = labels
		if len(d.Spec.Template.Spec.Containers) == 0 {
			d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main"}}
		}
		d.Spec.Template.Spec.Containers[0].Image = "registry.example/" + w.Spec.Message
		return controllerutil.SetControllerReference(&w, d, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, again(err)
	}
	want := WidgetStatus{ObservedGeneration: w.Generation, Phase: "Waiting"}
	settled := d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == w.Spec.Size
	if settled && d.Status.AvailableReplicas == w.Spec.Size && d.Status.Replicas == w.Spec.Size {
		want.Phase = "Ready"
	}
	if w.Status != want {
		w.Status = want
		return ctrl.Result{}, again(r.Status().Update(ctx, &w))
	}
	return ctrl.Result{}, nil
}

func (d *driver) workloads(ctx context.Context) error {
	cfg := *d.cfg
	cfg.Wrap(d.manager.wrap)
	mgr, err := ctrl.NewManager(&cfg, ctrl.Options{Scheme: d.scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(mgr).Named("deployer").For(&Widget{}).Owns(&appsv1.Deployment{}).
		Complete(&deployer{mgr.GetClient()})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return errors.New("caches did not sync")
	}
	const count = 3
	for i := range count {
		w := &Widget{
			ObjectMeta: metav1.ObjectMeta{Namespace: d.ns, Name: widgetName(i)},
			Spec:       WidgetSpec{Message: "v1", Size: int32(i + 1)},
		}
		if err := d.client.Create(ctx, w); err != nil {
			return err
		}
	}
	if err := d.waitDeployed(ctx, count, "v1"); err != nil {
		return fmt.Errorf("rollout: %w", err)
	}
	ok("deployments rolled out")
	d.manager.mark()

	for i := range count {
		err := conflicts(func() error {
			var w Widget
			if err := d.client.Get(ctx, client.ObjectKey{Namespace: d.ns, Name: widgetName(i)}, &w); err != nil {
				return err
			}
			w.Spec.Message, w.Spec.Size = "v2", w.Spec.Size+1
			return d.client.Update(ctx, &w)
		})
		if err != nil {
			return err
		}
	}
	if err := d.waitDeployed(ctx, count, "v2"); err != nil {
		return fmt.Errorf("update: %w", err)
	}
	ok("deployments rolled over")

	// A pod that is taken away comes back.
	pods, err := d.typed.CoreV1().Pods(d.ns).List(ctx, metav1.ListOptions{LabelSelector: "widget=w00"})
	if err != nil || len(pods.Items) == 0 {
		return fmt.Errorf("no pods to take away: %w", err)
	}
	if err := d.typed.CoreV1().Pods(d.ns).Delete(ctx, pods.Items[0].Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	err = poll(ctx, func(ctx context.Context) (bool, error) {
		_, err := d.typed.CoreV1().Pods(d.ns).Get(ctx, pods.Items[0].Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("pod gone: %w", err)
	}
	if err := d.waitDeployed(ctx, count, "v2"); err != nil {
		return fmt.Errorf("replacement: %w", err)
	}
	ok("a deleted pod is replaced")

	foreground := metav1.DeletePropagationForeground
	if err := d.client.DeleteAllOf(ctx, &Widget{}, client.InNamespace(d.ns), client.PropagationPolicy(foreground)); err != nil {
		return err
	}
	err = poll(ctx, func(ctx context.Context) (bool, error) {
		var widgets WidgetList
		if err := d.client.List(ctx, &widgets, client.InNamespace(d.ns)); err != nil || len(widgets.Items) > 0 {
			return false, err
		}
		// In the foreground, what owns goes last.
		sets, err := d.typed.AppsV1().ReplicaSets(d.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		left, err := d.typed.CoreV1().Pods(d.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		if len(sets.Items)+len(left.Items) > 0 {
			return false, fmt.Errorf("widgets are gone before %d replica sets and %d pods", len(sets.Items), len(left.Items))
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("deletion: %w", err)
	}
	ok("foreground deletion in order")
	if again := d.manager.sinceMark(); len(again) > 0 {
		return fmt.Errorf("lists or watches begun again: %v", again)
	}
	ok("no relists")
	stop()
	return <-stopped
}

func (d *driver) waitDeployed(ctx context.Context, count int, image string) error {
	state := ""
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		var list WidgetList
		if err := d.client.List(ctx, &list, client.InNamespace(d.ns)); err != nil {
			return false, err
		}
		state = ""
		for i := range list.Items {
			w := &list.Items[i]
			state += fmt.Sprintf(" %s=%s/%d", w.Name, w.Status.Phase, w.Status.ObservedGeneration)
			if w.Status.Phase != "Ready" || w.Status.ObservedGeneration != w.Generation {
				return false, nil
			}
			pods, err := d.typed.CoreV1().Pods(d.ns).List(ctx, metav1.ListOptions{LabelSelector: "widget=" + w.Name})
			if err != nil {
				return false, err
			}
			live := int32(0)
			for _, p := range pods.Items {
				if p.DeletionTimestamp == nil && p.Spec.Containers[0].Image == "registry.example/"+image {
					live++
				}
			}
			if live != w.Spec.Size {
				state += fmt.Sprintf(" (%d pods)", live)
				return false, nil
			}
		}
		return len(list.Items) == count, nil
	})
	if err != nil {
		return fmt.Errorf("%w; last seen:%s", err, state)
	}
	return nil
}
