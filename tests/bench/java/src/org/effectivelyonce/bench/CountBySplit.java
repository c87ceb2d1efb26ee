package org.effectivelyonce.bench;

import java.io.IOException;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.serialization.AbstractDeserializationSchema;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/**
 * Events per user and window on Flink, exactly once: time is that of the split that is furthest behind.
 *
 * <p>One argument: a properties file. What begins with {@code flink.} are Flink's own settings, with {@code producer.}
 * those of the sink's producer, with {@code bench.} ours. A count is sent once, when its window is over; it is visible
 * to readers of committed records when the next checkpoint is complete.
 */
public final class CountBySplit {
  private CountBySplit() {}

  public static void main(String[] arguments) throws Exception {
    Properties settings = new Properties();
    try (Reader file = Files.newBufferedReader(Path.of(arguments[0]), StandardCharsets.UTF_8)) {
      settings.load(file);
    }
    StreamExecutionEnvironment flink =
        StreamExecutionEnvironment.getExecutionEnvironment(Configuration.fromMap(of(settings, "flink.")));
    describe(flink, settings);
    flink.execute(settings.getProperty("bench.name"));
  }

  static void describe(StreamExecutionEnvironment flink, Properties settings) {
    WatermarkStrategy<Event> bySplit =
        WatermarkStrategy.<Event>forBoundedOutOfOrderness(duration(settings, "bench.lateness.ms"))
            .withTimestampAssigner((event, before) -> event.timeMs());
    flink
        .fromSource(source(settings), bySplit, "events")
        .keyBy(Event::user)
        .window(TumblingEventTimeWindows.of(duration(settings, "bench.window.ms")))
        .aggregate(new Count(), new Line())
        .sinkTo(sink(settings));
  }

  private static KafkaSource<Event> source(Properties settings) {
    return KafkaSource.<Event>builder()
        .setBootstrapServers(settings.getProperty("bench.bootstrap"))
        .setTopics(settings.getProperty("bench.topic"))
        .setGroupId(settings.getProperty("bench.name"))
        .setStartingOffsets(OffsetsInitializer.earliest())
        .setValueOnlyDeserializer(new Parsed())
        .build();
  }

  private static KafkaSink<String> sink(Properties settings) {
    Properties producer = new Properties();
    producer.putAll(of(settings, "producer."));
    return KafkaSink.<String>builder()
        .setBootstrapServers(settings.getProperty("bench.bootstrap"))
        .setKafkaProducerConfig(producer)
        .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .setTransactionalIdPrefix(settings.getProperty("bench.name"))
        .setRecordSerializer(
            KafkaRecordSerializationSchema.<String>builder()
                .setTopic(settings.getProperty("bench.output"))
                .setValueSerializationSchema(new SimpleStringSchema())
                .build())
        .build();
  }

  private static Map<String, String> of(Properties settings, String prefix) {
    return settings.stringPropertyNames().stream()
        .filter(name -> name.startsWith(prefix))
        .collect(Collectors.toMap(name -> name.substring(prefix.length()), settings::getProperty));
  }

  private static Duration duration(Properties settings, String name) {
    return Duration.ofMillis(Long.parseLong(settings.getProperty(name)));
  }

  private static final class Parsed extends AbstractDeserializationSchema<Event> {
    private static final long serialVersionUID = 1L;

    @Override
    public Event deserialize(byte[] record) throws IOException {
      return Event.parsed(record);
    }
  }

  private static final class Count implements AggregateFunction<Event, Long, Long> {
    private static final long serialVersionUID = 1L;

    @Override
    public Long createAccumulator() {
      return 0L;
    }

    @Override
    public Long add(Event event, Long counted) {
      return counted + 1;
    }

    @Override
    public Long getResult(Long counted) {
      return counted;
    }

    @Override
    public Long merge(Long one, Long other) {
      return one + other;
    }
  }

  /** Writes a count as JSON. Users of this benchmark need no escaping. */
  private static final class Line extends ProcessWindowFunction<Long, String, String, TimeWindow> {
    private static final long serialVersionUID = 1L;

    @Override
    public void process(String user, Context window, Iterable<Long> counts, Collector<String> out) {
      out.collect(
          "{\"user\":\"" + user + "\",\"window_start_ms\":" + window.window().getStart() + ",\"count\":"
              + counts.iterator().next() + "}");
    }
  }
}
