package org.effectivelyonce.bench;

import java.io.IOException;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * Events per user and window on Kafka Streams: read, parse, send by user to a topic in between, count, send each count.
 *
 * <p>One argument: a properties file, Kafka Streams' own settings and those that begin with {@code bench.}. A count is
 * sent whenever it leaves the cache, so a window is sent several times, the last time with its final count. With {@code
 * bench.dedup.ms} records go by id to another topic in between, and only the first of each id goes on; with {@code
 * bench.accepted} what goes on is sent to that topic as it came.
 */
public final class CountPerMinute {
  private static final byte[] NOTHING = {};

  private CountPerMinute() {}

  public static void main(String[] arguments) throws IOException, InterruptedException {
    Properties settings = new Properties();
    try (Reader file = Files.newBufferedReader(Path.of(arguments[0]), StandardCharsets.UTF_8)) {
      settings.load(file);
    }
    KafkaStreams streams = new KafkaStreams(topology(settings), new StreamsConfig(settings));
    CountDownLatch ended = new CountDownLatch(1);
    streams.setUncaughtExceptionHandler(error -> {
      error.printStackTrace();
      return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    });
    streams.setStateListener((now, before) -> {
      if (now == KafkaStreams.State.ERROR || now == KafkaStreams.State.NOT_RUNNING) {
        ended.countDown();
      }
    });
    streams.start();
    ended.await();
    System.exit(1);
  }

  static Topology topology(Properties settings) {
    Duration window = duration(settings, "bench.window.ms");
    Duration grace = duration(settings, "bench.grace.ms");
    Duration dedup = duration(settings, "bench.dedup.ms");
    String accepted = settings.getProperty("bench.accepted");
    int partitions = Integer.parseInt(settings.getProperty("bench.partitions"));
    Serde<Event> events = events(!accepted.isEmpty());

    StreamsBuilder builder = new StreamsBuilder();
    KStream<?, Event> read =
        builder.stream(
            settings.getProperty("bench.topic"),
            Consumed.with(Serdes.ByteArray(), events)
                .withTimestampExtractor((record, partitionTime) -> ((Event) record.value()).timeMs));
    if (!dedup.isZero()) {
      read =
          read.selectKey((key, event) -> event.id)
              .repartition(Repartitioned.with(Serdes.String(), events).withName("by-id").withNumberOfPartitions(partitions))
              .process(new FirstById(dedup, grace.plus(dedup)));
    }
    if (!accepted.isEmpty()) {
      read.map((key, event) -> KeyValue.pair(event.user, event.record))
          .to(accepted, Produced.with(Serdes.String(), Serdes.ByteArray()));
    }
    read.map((key, event) -> KeyValue.pair(event.user, NOTHING))
        .repartition(
            Repartitioned.with(Serdes.String(), Serdes.ByteArray()).withName("by-user").withNumberOfPartitions(partitions))
        .groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()))
        .windowedBy(TimeWindows.ofSizeAndGrace(window, grace))
        .count(Materialized.as("counts"))
        .toStream()
        .map((user, count) -> KeyValue.pair(user.key(), Event.line(user.key(), user.window().start(), count)))
        .to(settings.getProperty("bench.output"), Produced.with(Serdes.String(), Serdes.String()));
    return builder.build();
  }

  private static Duration duration(Properties settings, String name) {
    return Duration.ofMillis(Long.parseLong(settings.getProperty(name)));
  }

  private static Serde<Event> events(boolean kept) {
    Deserializer<Event> reading = (topic, record) -> Event.parsed(record, kept);
    Serializer<Event> writing = (topic, event) -> event.written();
    return Serdes.serdeFrom(writing, reading);
  }
}
