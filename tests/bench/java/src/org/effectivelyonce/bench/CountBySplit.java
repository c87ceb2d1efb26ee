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
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.serialization.AbstractDeserializationSchema;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Events per user and window on Flink, exactly once: time is that of the split that is furthest behind.
 *
 * <p>One argument: a properties file. What begins with {@code flink.} are Flink's own settings, with {@code producer.}
 * those of the sinks' producers, with {@code bench.} ours. A count is sent once, when its window is over; it is visible
 * to readers of committed records when the next checkpoint is complete. With {@code bench.dedup} only the first record
 * of each id goes on; with {@code bench.accepted} what goes on is sent to that topic as it came.
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
    Duration lateness = duration(settings, "bench.lateness.ms");
    String accepted = settings.getProperty("bench.accepted");
    WatermarkStrategy<Event> bySplit =
        WatermarkStrategy.<Event>forBoundedOutOfOrderness(lateness)
            .withTimestampAssigner((event, before) -> event.timeMs);
    DataStream<Event> events = flink.fromSource(source(settings, !accepted.isEmpty()), bySplit, "events");
    if (Boolean.parseBoolean(settings.getProperty("bench.dedup"))) {
      events = events.keyBy(event -> event.id).process(new First(lateness.toMillis()));
    }
    if (!accepted.isEmpty()) {
      events.sinkTo(
          sink(settings, "accepted", (event, context, time) ->
              new ProducerRecord<>(accepted, Event.bytes(event.user), event.record)));
    }
    String output = settings.getProperty("bench.output");
    events
        .map(Event::counted)
        .keyBy(event -> event.user)
        .window(TumblingEventTimeWindows.of(duration(settings, "bench.window.ms")))
        .aggregate(new Count(), new Line())
        .sinkTo(
            sink(settings, "counts", (line, context, time) ->
                new ProducerRecord<>(output, Event.bytes(line.f0), Event.bytes(line.f1))));
  }

  private static KafkaSource<Event> source(Properties settings, boolean kept) {
    return KafkaSource.<Event>builder()
        .setBootstrapServers(settings.getProperty("bench.bootstrap"))
        .setTopics(settings.getProperty("bench.topic"))
        .setGroupId(settings.getProperty("bench.name"))
        .setStartingOffsets(OffsetsInitializer.earliest())
        .setValueOnlyDeserializer(new Parsed(kept))
        .build();
  }

  private static <T> KafkaSink<T> sink(Properties settings, String name, KafkaRecordSerializationSchema<T> written) {
    Properties producer = new Properties();
    producer.putAll(of(settings, "producer."));
    return KafkaSink.<T>builder()
        .setBootstrapServers(settings.getProperty("bench.bootstrap"))
        .setKafkaProducerConfig(producer)
        .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .setTransactionalIdPrefix(settings.getProperty("bench.name") + "-" + name)
        .setRecordSerializer(written)
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

    private final boolean kept;

    Parsed(boolean kept) {
      this.kept = kept;
    }

    @Override
    public Event deserialize(byte[] record) {
      return Event.parsed(record, kept);
    }
  }

  /** Lets the first event of an id pass, and forgets the id when time has gone on by the lateness. */
  private static final class First extends KeyedProcessFunction<String, Event, Event> {
    private static final long serialVersionUID = 1L;

    private final long keptMs;
    private transient ValueState<Boolean> seen;

    First(long keptMs) {
      this.keptMs = keptMs;
    }

    @Override
    public void open(OpenContext context) {
      seen = getRuntimeContext().getState(new ValueStateDescriptor<>("seen", Boolean.class));
    }

    @Override
    public void processElement(Event event, Context context, Collector<Event> out) throws IOException {
      if (seen.value() == null) {
        seen.update(true);
        context.timerService().registerEventTimeTimer(event.timeMs + keptMs);
        out.collect(event);
      }
    }

    @Override
    public void onTimer(long timeMs, OnTimerContext context, Collector<Event> out) {
      seen.clear();
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

  /** Key and value of the message of a count. */
  private static final class Line extends ProcessWindowFunction<Long, Tuple2<String, String>, String, TimeWindow> {
    private static final long serialVersionUID = 1L;

    @Override
    public void process(String user, Context window, Iterable<Long> counts, Collector<Tuple2<String, String>> out) {
      out.collect(Tuple2.of(user, Event.line(user, window.window().getStart(), counts.iterator().next())));
    }
  }
}
