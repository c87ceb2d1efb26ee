package org.effectivelyonce.bench;

import java.time.Duration;
import java.util.Set;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/**
 * Kafka Streams has no operator that drops copies: this is the one its guides build, a window store of ids.
 *
 * <p>A record is a copy if its id is in the store with a time that is not further from its own than the period.
 */
final class FirstById implements ProcessorSupplier<String, Event, String, Event> {
  private static final String STORE = "ids";
  private static final byte[] SEEN = {};

  private final Duration period;
  private final Duration retention;

  /** Retention is how far back a partition may be that another thread reads. */
  FirstById(Duration period, Duration retention) {
    this.period = period;
    this.retention = retention;
  }

  @Override
  public Set<StoreBuilder<?>> stores() {
    return Set.of(
        Stores.windowStoreBuilder(
            Stores.persistentWindowStore(STORE, retention, period, false), Serdes.String(), Serdes.ByteArray()));
  }

  @Override
  public Processor<String, Event, String, Event> get() {
    return new ContextualProcessor<>() {
      private WindowStore<String, byte[]> ids;

      @Override
      public void process(Record<String, Event> record) {
        if (ids == null) {
          ids = context().getStateStore(STORE);
        }
        long time = record.timestamp();
        long back = Math.max(0, time - period.toMillis());
        try (WindowStoreIterator<byte[]> found = ids.fetch(record.key(), back, time + period.toMillis())) {
          if (found.hasNext()) {
            return;
          }
        }
        ids.put(record.key(), SEEN, time);
        context().forward(record);
      }
    };
  }
}
